<?xml version="1.0" encoding="UTF-8"?>
<!-- The Mspaces event envelope, version 1.1, as a module.

     PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN"

     A DTD for one type of event is a driver: it sets %Mspaces.content; to the payload, with a
     leading comma (for instance ", flight"), includes this module and declares the payload.

     An event may belong to any number of bundles, once in each. All else is as in 1.0.

     A DTD sees prefixes as they are written: the prefix is always Mspaces. -->

<!ENTITY % Mspaces.content "">

<!ELEMENT Mspaces:Event (Mspaces:StreamId, Mspaces:EventId, Mspaces:EventType,
                         Mspaces:EventLinkage, Mspaces:ApplicationType*,
                         Mspaces:Summary? %Mspaces.content;)>
<!ATTLIST Mspaces:Event
          xmlns:Mspaces CDATA #FIXED "urn:xmlbroker:mspaces">

<!ELEMENT Mspaces:StreamId (#PCDATA)>

<!-- Unique in space and time. TimeStamp is in milliseconds. -->
<!ELEMENT Mspaces:EventId (Mspaces:ClientId, Mspaces:TimeStamp,
                           Mspaces:SequenceNumber, Mspaces:Incarnation)>
<!ELEMENT Mspaces:ClientId (#PCDATA)>
<!ELEMENT Mspaces:TimeStamp (#PCDATA)>
<!ELEMENT Mspaces:SequenceNumber (#PCDATA)>
<!ELEMENT Mspaces:Incarnation (#PCDATA)>

<!ELEMENT Mspaces:EventType (Mspaces:VersionNum, Mspaces:LatestVersionNum?)>
<!ATTLIST Mspaces:EventType
          Securitylevel (low | med | high) "med"
          Liveness (live | recovery) "live">
<!ELEMENT Mspaces:VersionNum (#PCDATA)>
<!ELEMENT Mspaces:LatestVersionNum (#PCDATA)>

<!-- An event that is linked to nothing has an empty BundleLinkage and names its own stream in
     BundleOrder. An empty BundleLinkage is the reference's NONE. -->
<!ELEMENT Mspaces:EventLinkage ((Mspaces:BundleId, Mspaces:BundleNumber)*,
                                Mspaces:BundleLinkage, Mspaces:BundleOrder)>
<!ELEMENT Mspaces:BundleId (#PCDATA)>
<!ELEMENT Mspaces:BundleNumber (#PCDATA)>
<!ELEMENT Mspaces:BundleLinkage (Mspaces:TimeConstraint?, Mspaces:MergeScheme?)>
<!ELEMENT Mspaces:TimeConstraint (#PCDATA)>
<!ELEMENT Mspaces:MergeScheme (#PCDATA)>
<!ELEMENT Mspaces:BundleOrder (Mspaces:StreamId | Mspaces:BundleId)+>

<!ELEMENT Mspaces:ApplicationType (#PCDATA)>
<!ELEMENT Mspaces:Summary (#PCDATA)>
