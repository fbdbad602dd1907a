<?xml version="1.0" encoding="UTF-8"?>
<!-- Space-Time Coordinates 1.30, as far as the WhereWhen of a VOEvent 1.1 uses them, as a module.

     PUBLIC "-//xmlbroker//ELEMENTS STC 1.30//EN"

     The schema of STC has some hundreds of types and substitution groups: no DTD can say them. So an
     element with structure may hold any other one (ANY), and one that is a value holds text. Both
     spellings stand here: with the prefix stc, and without one in the default namespace that
     ObsDataLocation sets. The schema's default values are not supplied.

     The including DTD declares Name (which VOEvent has too) with %stc.attributes;. -->

<!ENTITY % stc.attributes
         "xmlns CDATA #IMPLIED
          xmlns:stc CDATA #FIXED 'http://www.ivoa.net/xml/STC/stc-v1.30.xsd'
          xmlns:xlink CDATA #FIXED 'http://www.w3.org/1999/xlink'
          xmlns:xsi CDATA #FIXED 'http://www.w3.org/2001/XMLSchema-instance'
          xsi:schemaLocation CDATA #IMPLIED
          xsi:type CDATA #IMPLIED
          xsi:nil CDATA #IMPLIED
          xlink:type CDATA #IMPLIED
          xlink:href CDATA #IMPLIED
          id CDATA #IMPLIED
          idref CDATA #IMPLIED
          ucd CDATA #IMPLIED">
<!ENTITY % stc.units
         "unit CDATA #IMPLIED
          pos_unit CDATA #IMPLIED
          pos_angle_unit CDATA #IMPLIED
          vel_time_unit CDATA #IMPLIED
          spectral_unit CDATA #IMPLIED
          gen_unit CDATA #IMPLIED">
<!ENTITY % stc.measure
         "%stc.units;
          frame_id CDATA #IMPLIED
          coord_system_id CDATA #IMPLIED
          epoch CDATA #IMPLIED
          fill_factor CDATA #IMPLIED
          hi_include CDATA #IMPLIED
          lo_include CDATA #IMPLIED
          note CDATA #IMPLIED">
<!ENTITY % stc.flavour
         "coord_naxes CDATA #IMPLIED
          coord_vel CDATA #IMPLIED
          handedness CDATA #IMPLIED">

<!-- Structure -->
<!ELEMENT ObsDataLocation ANY>
<!ATTLIST ObsDataLocation %stc.attributes;>
<!ELEMENT stc:ObsDataLocation ANY>
<!ATTLIST stc:ObsDataLocation %stc.attributes;>
<!ELEMENT ObservatoryLocation ANY>
<!ATTLIST ObservatoryLocation %stc.attributes;>
<!ELEMENT stc:ObservatoryLocation ANY>
<!ATTLIST stc:ObservatoryLocation %stc.attributes;>
<!ELEMENT ObservationLocation ANY>
<!ATTLIST ObservationLocation %stc.attributes;>
<!ELEMENT stc:ObservationLocation ANY>
<!ATTLIST stc:ObservationLocation %stc.attributes;>
<!ELEMENT AstroCoordSystem ANY>
<!ATTLIST AstroCoordSystem %stc.attributes;>
<!ELEMENT stc:AstroCoordSystem ANY>
<!ATTLIST stc:AstroCoordSystem %stc.attributes;>
<!ELEMENT AstroCoords ANY>
<!ATTLIST AstroCoords %stc.attributes; coord_system_id CDATA #IMPLIED>
<!ELEMENT stc:AstroCoords ANY>
<!ATTLIST stc:AstroCoords %stc.attributes; coord_system_id CDATA #IMPLIED>
<!ELEMENT AstroCoordArea ANY>
<!ATTLIST AstroCoordArea %stc.attributes; coord_system_id CDATA #IMPLIED>
<!ELEMENT stc:AstroCoordArea ANY>
<!ATTLIST stc:AstroCoordArea %stc.attributes; coord_system_id CDATA #IMPLIED>
<!ELEMENT TimeFrame ANY>
<!ATTLIST TimeFrame %stc.attributes;>
<!ELEMENT stc:TimeFrame ANY>
<!ATTLIST stc:TimeFrame %stc.attributes;>
<!ELEMENT SpaceFrame ANY>
<!ATTLIST SpaceFrame %stc.attributes;>
<!ELEMENT stc:SpaceFrame ANY>
<!ATTLIST stc:SpaceFrame %stc.attributes;>
<!ELEMENT SpectralFrame ANY>
<!ATTLIST SpectralFrame %stc.attributes;>
<!ELEMENT stc:SpectralFrame ANY>
<!ATTLIST stc:SpectralFrame %stc.attributes;>
<!ELEMENT RedshiftFrame ANY>
<!ATTLIST RedshiftFrame %stc.attributes;>
<!ELEMENT stc:RedshiftFrame ANY>
<!ATTLIST stc:RedshiftFrame %stc.attributes;>
<!ELEMENT Time ANY>
<!ATTLIST Time %stc.attributes; %stc.measure;>
<!ELEMENT stc:Time ANY>
<!ATTLIST stc:Time %stc.attributes; %stc.measure;>
<!ELEMENT TimeInstant ANY>
<!ATTLIST TimeInstant %stc.attributes;>
<!ELEMENT stc:TimeInstant ANY>
<!ATTLIST stc:TimeInstant %stc.attributes;>
<!ELEMENT TimeOrigin ANY>
<!ATTLIST TimeOrigin %stc.attributes;>
<!ELEMENT stc:TimeOrigin ANY>
<!ATTLIST stc:TimeOrigin %stc.attributes;>
<!ELEMENT TimeInterval ANY>
<!ATTLIST TimeInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:TimeInterval ANY>
<!ATTLIST stc:TimeInterval %stc.attributes; %stc.measure;>
<!ELEMENT StartTime ANY>
<!ATTLIST StartTime %stc.attributes;>
<!ELEMENT stc:StartTime ANY>
<!ATTLIST stc:StartTime %stc.attributes;>
<!ELEMENT StopTime ANY>
<!ATTLIST StopTime %stc.attributes;>
<!ELEMENT stc:StopTime ANY>
<!ATTLIST stc:StopTime %stc.attributes;>
<!ELEMENT Position ANY>
<!ATTLIST Position %stc.attributes;>
<!ELEMENT stc:Position ANY>
<!ATTLIST stc:Position %stc.attributes;>
<!ELEMENT Position1D ANY>
<!ATTLIST Position1D %stc.attributes; %stc.measure;>
<!ELEMENT stc:Position1D ANY>
<!ATTLIST stc:Position1D %stc.attributes; %stc.measure;>
<!ELEMENT Position2D ANY>
<!ATTLIST Position2D %stc.attributes; %stc.measure;>
<!ELEMENT stc:Position2D ANY>
<!ATTLIST stc:Position2D %stc.attributes; %stc.measure;>
<!ELEMENT Position3D ANY>
<!ATTLIST Position3D %stc.attributes; %stc.measure;>
<!ELEMENT stc:Position3D ANY>
<!ATTLIST stc:Position3D %stc.attributes; %stc.measure;>
<!ELEMENT Velocity1D ANY>
<!ATTLIST Velocity1D %stc.attributes; %stc.measure;>
<!ELEMENT stc:Velocity1D ANY>
<!ATTLIST stc:Velocity1D %stc.attributes; %stc.measure;>
<!ELEMENT Velocity2D ANY>
<!ATTLIST Velocity2D %stc.attributes; %stc.measure;>
<!ELEMENT stc:Velocity2D ANY>
<!ATTLIST stc:Velocity2D %stc.attributes; %stc.measure;>
<!ELEMENT Velocity3D ANY>
<!ATTLIST Velocity3D %stc.attributes; %stc.measure;>
<!ELEMENT stc:Velocity3D ANY>
<!ATTLIST stc:Velocity3D %stc.attributes; %stc.measure;>
<!ELEMENT Spectral ANY>
<!ATTLIST Spectral %stc.attributes; %stc.measure;>
<!ELEMENT stc:Spectral ANY>
<!ATTLIST stc:Spectral %stc.attributes; %stc.measure;>
<!ELEMENT Redshift ANY>
<!ATTLIST Redshift %stc.attributes; %stc.measure;>
<!ELEMENT stc:Redshift ANY>
<!ATTLIST stc:Redshift %stc.attributes; %stc.measure;>
<!ELEMENT PositionFile ANY>
<!ATTLIST PositionFile %stc.attributes;>
<!ELEMENT stc:PositionFile ANY>
<!ATTLIST stc:PositionFile %stc.attributes;>
<!ELEMENT VelocityFile ANY>
<!ATTLIST VelocityFile %stc.attributes;>
<!ELEMENT stc:VelocityFile ANY>
<!ATTLIST stc:VelocityFile %stc.attributes;>
<!ELEMENT Value2 ANY>
<!ATTLIST Value2 %stc.attributes; %stc.units;>
<!ELEMENT stc:Value2 ANY>
<!ATTLIST stc:Value2 %stc.attributes; %stc.units;>
<!ELEMENT Value3 ANY>
<!ATTLIST Value3 %stc.attributes; %stc.units;>
<!ELEMENT stc:Value3 ANY>
<!ATTLIST stc:Value3 %stc.attributes; %stc.units;>
<!ELEMENT Error2 ANY>
<!ATTLIST Error2 %stc.attributes; %stc.units;>
<!ELEMENT stc:Error2 ANY>
<!ATTLIST stc:Error2 %stc.attributes; %stc.units;>
<!ELEMENT Error3 ANY>
<!ATTLIST Error3 %stc.attributes; %stc.units;>
<!ELEMENT stc:Error3 ANY>
<!ATTLIST stc:Error3 %stc.attributes; %stc.units;>
<!ELEMENT Error2PA ANY>
<!ATTLIST Error2PA %stc.attributes;>
<!ELEMENT stc:Error2PA ANY>
<!ATTLIST stc:Error2PA %stc.attributes;>
<!ELEMENT Error3PA ANY>
<!ATTLIST Error3PA %stc.attributes;>
<!ELEMENT stc:Error3PA ANY>
<!ATTLIST stc:Error3PA %stc.attributes;>
<!ELEMENT Error2Matrix ANY>
<!ATTLIST Error2Matrix %stc.attributes;>
<!ELEMENT stc:Error2Matrix ANY>
<!ATTLIST stc:Error2Matrix %stc.attributes;>
<!ELEMENT Error3Matrix ANY>
<!ATTLIST Error3Matrix %stc.attributes;>
<!ELEMENT stc:Error3Matrix ANY>
<!ATTLIST stc:Error3Matrix %stc.attributes;>
<!ELEMENT Resolution2 ANY>
<!ATTLIST Resolution2 %stc.attributes;>
<!ELEMENT stc:Resolution2 ANY>
<!ATTLIST stc:Resolution2 %stc.attributes;>
<!ELEMENT Resolution3 ANY>
<!ATTLIST Resolution3 %stc.attributes;>
<!ELEMENT stc:Resolution3 ANY>
<!ATTLIST stc:Resolution3 %stc.attributes;>
<!ELEMENT Resolution2PA ANY>
<!ATTLIST Resolution2PA %stc.attributes;>
<!ELEMENT stc:Resolution2PA ANY>
<!ATTLIST stc:Resolution2PA %stc.attributes;>
<!ELEMENT Resolution3PA ANY>
<!ATTLIST Resolution3PA %stc.attributes;>
<!ELEMENT stc:Resolution3PA ANY>
<!ATTLIST stc:Resolution3PA %stc.attributes;>
<!ELEMENT Size2 ANY>
<!ATTLIST Size2 %stc.attributes; %stc.units;>
<!ELEMENT stc:Size2 ANY>
<!ATTLIST stc:Size2 %stc.attributes; %stc.units;>
<!ELEMENT Size3 ANY>
<!ATTLIST Size3 %stc.attributes; %stc.units;>
<!ELEMENT stc:Size3 ANY>
<!ATTLIST stc:Size3 %stc.attributes; %stc.units;>
<!ELEMENT Size2PA ANY>
<!ATTLIST Size2PA %stc.attributes;>
<!ELEMENT stc:Size2PA ANY>
<!ATTLIST stc:Size2PA %stc.attributes;>
<!ELEMENT Size3PA ANY>
<!ATTLIST Size3PA %stc.attributes;>
<!ELEMENT stc:Size3PA ANY>
<!ATTLIST stc:Size3PA %stc.attributes;>
<!ELEMENT PixSize2 ANY>
<!ATTLIST PixSize2 %stc.attributes;>
<!ELEMENT stc:PixSize2 ANY>
<!ATTLIST stc:PixSize2 %stc.attributes;>
<!ELEMENT PixSize3 ANY>
<!ATTLIST PixSize3 %stc.attributes;>
<!ELEMENT stc:PixSize3 ANY>
<!ATTLIST stc:PixSize3 %stc.attributes;>
<!ELEMENT PositionScalarInterval ANY>
<!ATTLIST PositionScalarInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:PositionScalarInterval ANY>
<!ATTLIST stc:PositionScalarInterval %stc.attributes; %stc.measure;>
<!ELEMENT Position2VecInterval ANY>
<!ATTLIST Position2VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:Position2VecInterval ANY>
<!ATTLIST stc:Position2VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT Position3VecInterval ANY>
<!ATTLIST Position3VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:Position3VecInterval ANY>
<!ATTLIST stc:Position3VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT VelScalarInterval ANY>
<!ATTLIST VelScalarInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:VelScalarInterval ANY>
<!ATTLIST stc:VelScalarInterval %stc.attributes; %stc.measure;>
<!ELEMENT Velocity2VecInterval ANY>
<!ATTLIST Velocity2VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:Velocity2VecInterval ANY>
<!ATTLIST stc:Velocity2VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT Velocity3VecInterval ANY>
<!ATTLIST Velocity3VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:Velocity3VecInterval ANY>
<!ATTLIST stc:Velocity3VecInterval %stc.attributes; %stc.measure;>
<!ELEMENT SpectralInterval ANY>
<!ATTLIST SpectralInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:SpectralInterval ANY>
<!ATTLIST stc:SpectralInterval %stc.attributes; %stc.measure;>
<!ELEMENT RedshiftInterval ANY>
<!ATTLIST RedshiftInterval %stc.attributes; %stc.measure;>
<!ELEMENT stc:RedshiftInterval ANY>
<!ATTLIST stc:RedshiftInterval %stc.attributes; %stc.measure;>
<!ELEMENT LoLimit2Vec ANY>
<!ATTLIST LoLimit2Vec %stc.attributes;>
<!ELEMENT stc:LoLimit2Vec ANY>
<!ATTLIST stc:LoLimit2Vec %stc.attributes;>
<!ELEMENT HiLimit2Vec ANY>
<!ATTLIST HiLimit2Vec %stc.attributes;>
<!ELEMENT stc:HiLimit2Vec ANY>
<!ATTLIST stc:HiLimit2Vec %stc.attributes;>
<!ELEMENT LoLimit3Vec ANY>
<!ATTLIST LoLimit3Vec %stc.attributes;>
<!ELEMENT stc:LoLimit3Vec ANY>
<!ATTLIST stc:LoLimit3Vec %stc.attributes;>
<!ELEMENT HiLimit3Vec ANY>
<!ATTLIST HiLimit3Vec %stc.attributes;>
<!ELEMENT stc:HiLimit3Vec ANY>
<!ATTLIST stc:HiLimit3Vec %stc.attributes;>
<!ELEMENT Sphere ANY>
<!ATTLIST Sphere %stc.attributes; %stc.measure;>
<!ELEMENT stc:Sphere ANY>
<!ATTLIST stc:Sphere %stc.attributes; %stc.measure;>
<!ELEMENT AllSky ANY>
<!ATTLIST AllSky %stc.attributes; %stc.measure;>
<!ELEMENT stc:AllSky ANY>
<!ATTLIST stc:AllSky %stc.attributes; %stc.measure;>
<!ELEMENT AllSky2 ANY>
<!ATTLIST AllSky2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:AllSky2 ANY>
<!ATTLIST stc:AllSky2 %stc.attributes; %stc.measure;>
<!ELEMENT Circle ANY>
<!ATTLIST Circle %stc.attributes; %stc.measure;>
<!ELEMENT stc:Circle ANY>
<!ATTLIST stc:Circle %stc.attributes; %stc.measure;>
<!ELEMENT Circle2 ANY>
<!ATTLIST Circle2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Circle2 ANY>
<!ATTLIST stc:Circle2 %stc.attributes; %stc.measure;>
<!ELEMENT Ellipse ANY>
<!ATTLIST Ellipse %stc.attributes; %stc.measure;>
<!ELEMENT stc:Ellipse ANY>
<!ATTLIST stc:Ellipse %stc.attributes; %stc.measure;>
<!ELEMENT Ellipse2 ANY>
<!ATTLIST Ellipse2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Ellipse2 ANY>
<!ATTLIST stc:Ellipse2 %stc.attributes; %stc.measure;>
<!ELEMENT Box ANY>
<!ATTLIST Box %stc.attributes; %stc.measure;>
<!ELEMENT stc:Box ANY>
<!ATTLIST stc:Box %stc.attributes; %stc.measure;>
<!ELEMENT Box2 ANY>
<!ATTLIST Box2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Box2 ANY>
<!ATTLIST stc:Box2 %stc.attributes; %stc.measure;>
<!ELEMENT Polygon ANY>
<!ATTLIST Polygon %stc.attributes; %stc.measure;>
<!ELEMENT stc:Polygon ANY>
<!ATTLIST stc:Polygon %stc.attributes; %stc.measure;>
<!ELEMENT Polygon2 ANY>
<!ATTLIST Polygon2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Polygon2 ANY>
<!ATTLIST stc:Polygon2 %stc.attributes; %stc.measure;>
<!ELEMENT Convex ANY>
<!ATTLIST Convex %stc.attributes; %stc.measure;>
<!ELEMENT stc:Convex ANY>
<!ATTLIST stc:Convex %stc.attributes; %stc.measure;>
<!ELEMENT Convex2 ANY>
<!ATTLIST Convex2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Convex2 ANY>
<!ATTLIST stc:Convex2 %stc.attributes; %stc.measure;>
<!ELEMENT ConvexHull ANY>
<!ATTLIST ConvexHull %stc.attributes; %stc.measure;>
<!ELEMENT stc:ConvexHull ANY>
<!ATTLIST stc:ConvexHull %stc.attributes; %stc.measure;>
<!ELEMENT ConvexHull2 ANY>
<!ATTLIST ConvexHull2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:ConvexHull2 ANY>
<!ATTLIST stc:ConvexHull2 %stc.attributes; %stc.measure;>
<!ELEMENT Sector ANY>
<!ATTLIST Sector %stc.attributes; %stc.measure;>
<!ELEMENT stc:Sector ANY>
<!ATTLIST stc:Sector %stc.attributes; %stc.measure;>
<!ELEMENT Sector2 ANY>
<!ATTLIST Sector2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Sector2 ANY>
<!ATTLIST stc:Sector2 %stc.attributes; %stc.measure;>
<!ELEMENT Union ANY>
<!ATTLIST Union %stc.attributes; %stc.measure;>
<!ELEMENT stc:Union ANY>
<!ATTLIST stc:Union %stc.attributes; %stc.measure;>
<!ELEMENT Union2 ANY>
<!ATTLIST Union2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Union2 ANY>
<!ATTLIST stc:Union2 %stc.attributes; %stc.measure;>
<!ELEMENT Intersection ANY>
<!ATTLIST Intersection %stc.attributes; %stc.measure;>
<!ELEMENT stc:Intersection ANY>
<!ATTLIST stc:Intersection %stc.attributes; %stc.measure;>
<!ELEMENT Intersection2 ANY>
<!ATTLIST Intersection2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Intersection2 ANY>
<!ATTLIST stc:Intersection2 %stc.attributes; %stc.measure;>
<!ELEMENT Negation ANY>
<!ATTLIST Negation %stc.attributes; %stc.measure;>
<!ELEMENT stc:Negation ANY>
<!ATTLIST stc:Negation %stc.attributes; %stc.measure;>
<!ELEMENT Negation2 ANY>
<!ATTLIST Negation2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Negation2 ANY>
<!ATTLIST stc:Negation2 %stc.attributes; %stc.measure;>
<!ELEMENT Difference ANY>
<!ATTLIST Difference %stc.attributes; %stc.measure;>
<!ELEMENT stc:Difference ANY>
<!ATTLIST stc:Difference %stc.attributes; %stc.measure;>
<!ELEMENT Difference2 ANY>
<!ATTLIST Difference2 %stc.attributes; %stc.measure;>
<!ELEMENT stc:Difference2 ANY>
<!ATTLIST stc:Difference2 %stc.attributes; %stc.measure;>
<!ELEMENT Region ANY>
<!ATTLIST Region %stc.attributes; %stc.measure;>
<!ELEMENT stc:Region ANY>
<!ATTLIST stc:Region %stc.attributes; %stc.measure;>
<!ELEMENT Center ANY>
<!ATTLIST Center %stc.attributes; %stc.units;>
<!ELEMENT stc:Center ANY>
<!ATTLIST stc:Center %stc.attributes; %stc.units;>
<!ELEMENT Vertex ANY>
<!ATTLIST Vertex %stc.attributes;>
<!ELEMENT stc:Vertex ANY>
<!ATTLIST stc:Vertex %stc.attributes;>
<!ELEMENT SmallCircle ANY>
<!ATTLIST SmallCircle %stc.attributes;>
<!ELEMENT stc:SmallCircle ANY>
<!ATTLIST stc:SmallCircle %stc.attributes;>
<!ELEMENT Pole ANY>
<!ATTLIST Pole %stc.attributes;>
<!ELEMENT stc:Pole ANY>
<!ATTLIST stc:Pole %stc.attributes;>
<!ELEMENT Halfspace ANY>
<!ATTLIST Halfspace %stc.attributes;>
<!ELEMENT stc:Halfspace ANY>
<!ATTLIST stc:Halfspace %stc.attributes;>
<!ELEMENT Vector ANY>
<!ATTLIST Vector %stc.attributes;>
<!ELEMENT stc:Vector ANY>
<!ATTLIST stc:Vector %stc.attributes;>
<!ELEMENT Point ANY>
<!ATTLIST Point %stc.attributes;>
<!ELEMENT stc:Point ANY>
<!ATTLIST stc:Point %stc.attributes;>
<!ELEMENT Offset ANY>
<!ATTLIST Offset %stc.attributes; %stc.units;>
<!ELEMENT stc:Offset ANY>
<!ATTLIST stc:Offset %stc.attributes; %stc.units;>
<!ELEMENT TOPOCENTER ANY>
<!ATTLIST TOPOCENTER %stc.attributes;>
<!ELEMENT stc:TOPOCENTER ANY>
<!ATTLIST stc:TOPOCENTER %stc.attributes;>
<!ELEMENT GEOCENTER ANY>
<!ATTLIST GEOCENTER %stc.attributes;>
<!ELEMENT stc:GEOCENTER ANY>
<!ATTLIST stc:GEOCENTER %stc.attributes;>
<!ELEMENT BARYCENTER ANY>
<!ATTLIST BARYCENTER %stc.attributes;>
<!ELEMENT stc:BARYCENTER ANY>
<!ATTLIST stc:BARYCENTER %stc.attributes;>
<!ELEMENT HELIOCENTER ANY>
<!ATTLIST HELIOCENTER %stc.attributes;>
<!ELEMENT stc:HELIOCENTER ANY>
<!ATTLIST stc:HELIOCENTER %stc.attributes;>
<!ELEMENT EMBARYCENTER ANY>
<!ATTLIST EMBARYCENTER %stc.attributes;>
<!ELEMENT stc:EMBARYCENTER ANY>
<!ATTLIST stc:EMBARYCENTER %stc.attributes;>
<!ELEMENT MOON ANY>
<!ATTLIST MOON %stc.attributes;>
<!ELEMENT stc:MOON ANY>
<!ATTLIST stc:MOON %stc.attributes;>
<!ELEMENT GALACTIC_CENTER ANY>
<!ATTLIST GALACTIC_CENTER %stc.attributes;>
<!ELEMENT stc:GALACTIC_CENTER ANY>
<!ATTLIST stc:GALACTIC_CENTER %stc.attributes;>
<!ELEMENT LOCAL_GROUP_CENTER ANY>
<!ATTLIST LOCAL_GROUP_CENTER %stc.attributes;>
<!ELEMENT stc:LOCAL_GROUP_CENTER ANY>
<!ATTLIST stc:LOCAL_GROUP_CENTER %stc.attributes;>
<!ELEMENT LSR ANY>
<!ATTLIST LSR %stc.attributes;>
<!ELEMENT stc:LSR ANY>
<!ATTLIST stc:LSR %stc.attributes;>
<!ELEMENT LSRK ANY>
<!ATTLIST LSRK %stc.attributes;>
<!ELEMENT stc:LSRK ANY>
<!ATTLIST stc:LSRK %stc.attributes;>
<!ELEMENT LSRD ANY>
<!ATTLIST LSRD %stc.attributes;>
<!ELEMENT stc:LSRD ANY>
<!ATTLIST stc:LSRD %stc.attributes;>
<!ELEMENT RELOCATABLE ANY>
<!ATTLIST RELOCATABLE %stc.attributes;>
<!ELEMENT stc:RELOCATABLE ANY>
<!ATTLIST stc:RELOCATABLE %stc.attributes;>
<!ELEMENT UNKNOWNRefPos ANY>
<!ATTLIST UNKNOWNRefPos %stc.attributes;>
<!ELEMENT stc:UNKNOWNRefPos ANY>
<!ATTLIST stc:UNKNOWNRefPos %stc.attributes;>
<!ELEMENT CoordRefPos ANY>
<!ATTLIST CoordRefPos %stc.attributes;>
<!ELEMENT stc:CoordRefPos ANY>
<!ATTLIST stc:CoordRefPos %stc.attributes;>
<!ELEMENT ICRS ANY>
<!ATTLIST ICRS %stc.attributes;>
<!ELEMENT stc:ICRS ANY>
<!ATTLIST stc:ICRS %stc.attributes;>
<!ELEMENT FK4 ANY>
<!ATTLIST FK4 %stc.attributes;>
<!ELEMENT stc:FK4 ANY>
<!ATTLIST stc:FK4 %stc.attributes;>
<!ELEMENT FK5 ANY>
<!ATTLIST FK5 %stc.attributes;>
<!ELEMENT stc:FK5 ANY>
<!ATTLIST stc:FK5 %stc.attributes;>
<!ELEMENT ECLIPTIC ANY>
<!ATTLIST ECLIPTIC %stc.attributes;>
<!ELEMENT stc:ECLIPTIC ANY>
<!ATTLIST stc:ECLIPTIC %stc.attributes;>
<!ELEMENT GALACTIC_I ANY>
<!ATTLIST GALACTIC_I %stc.attributes;>
<!ELEMENT stc:GALACTIC_I ANY>
<!ATTLIST stc:GALACTIC_I %stc.attributes;>
<!ELEMENT GALACTIC_II ANY>
<!ATTLIST GALACTIC_II %stc.attributes;>
<!ELEMENT stc:GALACTIC_II ANY>
<!ATTLIST stc:GALACTIC_II %stc.attributes;>
<!ELEMENT SUPER_GALACTIC ANY>
<!ATTLIST SUPER_GALACTIC %stc.attributes;>
<!ELEMENT stc:SUPER_GALACTIC ANY>
<!ATTLIST stc:SUPER_GALACTIC %stc.attributes;>
<!ELEMENT AZ_EL ANY>
<!ATTLIST AZ_EL %stc.attributes;>
<!ELEMENT stc:AZ_EL ANY>
<!ATTLIST stc:AZ_EL %stc.attributes;>
<!ELEMENT BODY ANY>
<!ATTLIST BODY %stc.attributes;>
<!ELEMENT stc:BODY ANY>
<!ATTLIST stc:BODY %stc.attributes;>
<!ELEMENT GEO_C ANY>
<!ATTLIST GEO_C %stc.attributes;>
<!ELEMENT stc:GEO_C ANY>
<!ATTLIST stc:GEO_C %stc.attributes;>
<!ELEMENT GEO_D ANY>
<!ATTLIST GEO_D %stc.attributes;>
<!ELEMENT stc:GEO_D ANY>
<!ATTLIST stc:GEO_D %stc.attributes;>
<!ELEMENT MAG ANY>
<!ATTLIST MAG %stc.attributes;>
<!ELEMENT stc:MAG ANY>
<!ATTLIST stc:MAG %stc.attributes;>
<!ELEMENT GSE ANY>
<!ATTLIST GSE %stc.attributes;>
<!ELEMENT stc:GSE ANY>
<!ATTLIST stc:GSE %stc.attributes;>
<!ELEMENT GSM ANY>
<!ATTLIST GSM %stc.attributes;>
<!ELEMENT stc:GSM ANY>
<!ATTLIST stc:GSM %stc.attributes;>
<!ELEMENT SM ANY>
<!ATTLIST SM %stc.attributes;>
<!ELEMENT stc:SM ANY>
<!ATTLIST stc:SM %stc.attributes;>
<!ELEMENT HGC ANY>
<!ATTLIST HGC %stc.attributes;>
<!ELEMENT stc:HGC ANY>
<!ATTLIST stc:HGC %stc.attributes;>
<!ELEMENT HGS ANY>
<!ATTLIST HGS %stc.attributes;>
<!ELEMENT stc:HGS ANY>
<!ATTLIST stc:HGS %stc.attributes;>
<!ELEMENT HPC ANY>
<!ATTLIST HPC %stc.attributes;>
<!ELEMENT stc:HPC ANY>
<!ATTLIST stc:HPC %stc.attributes;>
<!ELEMENT HPR ANY>
<!ATTLIST HPR %stc.attributes;>
<!ELEMENT stc:HPR ANY>
<!ATTLIST stc:HPR %stc.attributes;>
<!ELEMENT HCC ANY>
<!ATTLIST HCC %stc.attributes;>
<!ELEMENT stc:HCC ANY>
<!ATTLIST stc:HCC %stc.attributes;>
<!ELEMENT UNKNOWNFrame ANY>
<!ATTLIST UNKNOWNFrame %stc.attributes;>
<!ELEMENT stc:UNKNOWNFrame ANY>
<!ATTLIST stc:UNKNOWNFrame %stc.attributes;>
<!ELEMENT SPHERICAL ANY>
<!ATTLIST SPHERICAL %stc.attributes; %stc.flavour;>
<!ELEMENT stc:SPHERICAL ANY>
<!ATTLIST stc:SPHERICAL %stc.attributes; %stc.flavour;>
<!ELEMENT CARTESIAN ANY>
<!ATTLIST CARTESIAN %stc.attributes; %stc.flavour;>
<!ELEMENT stc:CARTESIAN ANY>
<!ATTLIST stc:CARTESIAN %stc.attributes; %stc.flavour;>
<!ELEMENT UNITSPHERE ANY>
<!ATTLIST UNITSPHERE %stc.attributes; %stc.flavour;>
<!ELEMENT stc:UNITSPHERE ANY>
<!ATTLIST stc:UNITSPHERE %stc.attributes; %stc.flavour;>
<!ELEMENT POLAR ANY>
<!ATTLIST POLAR %stc.attributes; %stc.flavour;>
<!ELEMENT stc:POLAR ANY>
<!ATTLIST stc:POLAR %stc.attributes; %stc.flavour;>
<!ELEMENT CYLINDRICAL ANY>
<!ATTLIST CYLINDRICAL %stc.attributes; %stc.flavour;>
<!ELEMENT stc:CYLINDRICAL ANY>
<!ATTLIST stc:CYLINDRICAL %stc.attributes; %stc.flavour;>
<!ELEMENT STRING ANY>
<!ATTLIST STRING %stc.attributes; %stc.flavour;>
<!ELEMENT stc:STRING ANY>
<!ATTLIST stc:STRING %stc.attributes; %stc.flavour;>
<!ELEMENT HEALPIX ANY>
<!ATTLIST HEALPIX %stc.attributes; %stc.flavour;>
<!ELEMENT stc:HEALPIX ANY>
<!ATTLIST stc:HEALPIX %stc.attributes; %stc.flavour;>

<!-- Values -->
<!ELEMENT stc:Name (#PCDATA)>
<!ATTLIST stc:Name %stc.attributes;>
<!ELEMENT Name1 (#PCDATA)>
<!ATTLIST Name1 %stc.attributes;>
<!ELEMENT stc:Name1 (#PCDATA)>
<!ATTLIST stc:Name1 %stc.attributes;>
<!ELEMENT Name2 (#PCDATA)>
<!ATTLIST Name2 %stc.attributes;>
<!ELEMENT stc:Name2 (#PCDATA)>
<!ATTLIST stc:Name2 %stc.attributes;>
<!ELEMENT Name3 (#PCDATA)>
<!ATTLIST Name3 %stc.attributes;>
<!ELEMENT stc:Name3 (#PCDATA)>
<!ATTLIST stc:Name3 %stc.attributes;>
<!ELEMENT PositionName (#PCDATA)>
<!ATTLIST PositionName %stc.attributes;>
<!ELEMENT stc:PositionName (#PCDATA)>
<!ATTLIST stc:PositionName %stc.attributes;>
<!ELEMENT TimeScale (#PCDATA)>
<!ATTLIST TimeScale %stc.attributes;>
<!ELEMENT stc:TimeScale (#PCDATA)>
<!ATTLIST stc:TimeScale %stc.attributes;>
<!ELEMENT ISOTime (#PCDATA)>
<!ATTLIST ISOTime %stc.attributes;>
<!ELEMENT stc:ISOTime (#PCDATA)>
<!ATTLIST stc:ISOTime %stc.attributes;>
<!ELEMENT JDTime (#PCDATA)>
<!ATTLIST JDTime %stc.attributes;>
<!ELEMENT stc:JDTime (#PCDATA)>
<!ATTLIST stc:JDTime %stc.attributes;>
<!ELEMENT MJDTime (#PCDATA)>
<!ATTLIST MJDTime %stc.attributes;>
<!ELEMENT stc:MJDTime (#PCDATA)>
<!ATTLIST stc:MJDTime %stc.attributes;>
<!ELEMENT TimeOffset (#PCDATA)>
<!ATTLIST TimeOffset %stc.attributes;>
<!ELEMENT stc:TimeOffset (#PCDATA)>
<!ATTLIST stc:TimeOffset %stc.attributes;>
<!ELEMENT Equinox (#PCDATA)>
<!ATTLIST Equinox %stc.attributes;>
<!ELEMENT stc:Equinox (#PCDATA)>
<!ATTLIST stc:Equinox %stc.attributes;>
<!ELEMENT C1 (#PCDATA)>
<!ATTLIST C1 %stc.attributes; %stc.units;>
<!ELEMENT stc:C1 (#PCDATA)>
<!ATTLIST stc:C1 %stc.attributes; %stc.units;>
<!ELEMENT C2 (#PCDATA)>
<!ATTLIST C2 %stc.attributes; %stc.units;>
<!ELEMENT stc:C2 (#PCDATA)>
<!ATTLIST stc:C2 %stc.attributes; %stc.units;>
<!ELEMENT C3 (#PCDATA)>
<!ATTLIST C3 %stc.attributes; %stc.units;>
<!ELEMENT stc:C3 (#PCDATA)>
<!ATTLIST stc:C3 %stc.attributes; %stc.units;>
<!ELEMENT Value (#PCDATA)>
<!ATTLIST Value %stc.attributes;>
<!ELEMENT stc:Value (#PCDATA)>
<!ATTLIST stc:Value %stc.attributes;>
<!ELEMENT Error (#PCDATA)>
<!ATTLIST Error %stc.attributes; %stc.units;>
<!ELEMENT stc:Error (#PCDATA)>
<!ATTLIST stc:Error %stc.attributes; %stc.units;>
<!ELEMENT Error2Radius (#PCDATA)>
<!ATTLIST Error2Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Error2Radius (#PCDATA)>
<!ATTLIST stc:Error2Radius %stc.attributes; %stc.units;>
<!ELEMENT Error3Radius (#PCDATA)>
<!ATTLIST Error3Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Error3Radius (#PCDATA)>
<!ATTLIST stc:Error3Radius %stc.attributes; %stc.units;>
<!ELEMENT Resolution (#PCDATA)>
<!ATTLIST Resolution %stc.attributes; %stc.units;>
<!ELEMENT stc:Resolution (#PCDATA)>
<!ATTLIST stc:Resolution %stc.attributes; %stc.units;>
<!ELEMENT Resolution2Radius (#PCDATA)>
<!ATTLIST Resolution2Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Resolution2Radius (#PCDATA)>
<!ATTLIST stc:Resolution2Radius %stc.attributes; %stc.units;>
<!ELEMENT Resolution3Radius (#PCDATA)>
<!ATTLIST Resolution3Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Resolution3Radius (#PCDATA)>
<!ATTLIST stc:Resolution3Radius %stc.attributes; %stc.units;>
<!ELEMENT Size (#PCDATA)>
<!ATTLIST Size %stc.attributes; %stc.units;>
<!ELEMENT stc:Size (#PCDATA)>
<!ATTLIST stc:Size %stc.attributes; %stc.units;>
<!ELEMENT Size2Radius (#PCDATA)>
<!ATTLIST Size2Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Size2Radius (#PCDATA)>
<!ATTLIST stc:Size2Radius %stc.attributes; %stc.units;>
<!ELEMENT Size3Radius (#PCDATA)>
<!ATTLIST Size3Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Size3Radius (#PCDATA)>
<!ATTLIST stc:Size3Radius %stc.attributes; %stc.units;>
<!ELEMENT PixSize (#PCDATA)>
<!ATTLIST PixSize %stc.attributes; %stc.units;>
<!ELEMENT stc:PixSize (#PCDATA)>
<!ATTLIST stc:PixSize %stc.attributes; %stc.units;>
<!ELEMENT PosAngle (#PCDATA)>
<!ATTLIST PosAngle %stc.attributes; %stc.units; reference CDATA #IMPLIED>
<!ELEMENT stc:PosAngle (#PCDATA)>
<!ATTLIST stc:PosAngle %stc.attributes; %stc.units; reference CDATA #IMPLIED>
<!ELEMENT PosAngle1 (#PCDATA)>
<!ATTLIST PosAngle1 %stc.attributes; %stc.units; reference CDATA #IMPLIED>
<!ELEMENT stc:PosAngle1 (#PCDATA)>
<!ATTLIST stc:PosAngle1 %stc.attributes; %stc.units; reference CDATA #IMPLIED>
<!ELEMENT PosAngle2 (#PCDATA)>
<!ATTLIST PosAngle2 %stc.attributes; %stc.units; reference CDATA #IMPLIED>
<!ELEMENT stc:PosAngle2 (#PCDATA)>
<!ATTLIST stc:PosAngle2 %stc.attributes; %stc.units; reference CDATA #IMPLIED>
<!ELEMENT Radius (#PCDATA)>
<!ATTLIST Radius %stc.attributes; %stc.units;>
<!ELEMENT stc:Radius (#PCDATA)>
<!ATTLIST stc:Radius %stc.attributes; %stc.units;>
<!ELEMENT SemiMajorAxis (#PCDATA)>
<!ATTLIST SemiMajorAxis %stc.attributes; %stc.units;>
<!ELEMENT stc:SemiMajorAxis (#PCDATA)>
<!ATTLIST stc:SemiMajorAxis %stc.attributes; %stc.units;>
<!ELEMENT SemiMinorAxis (#PCDATA)>
<!ATTLIST SemiMinorAxis %stc.attributes; %stc.units;>
<!ELEMENT stc:SemiMinorAxis (#PCDATA)>
<!ATTLIST stc:SemiMinorAxis %stc.attributes; %stc.units;>
<!ELEMENT LoLimit (#PCDATA)>
<!ATTLIST LoLimit %stc.attributes;>
<!ELEMENT stc:LoLimit (#PCDATA)>
<!ATTLIST stc:LoLimit %stc.attributes;>
<!ELEMENT HiLimit (#PCDATA)>
<!ATTLIST HiLimit %stc.attributes;>
<!ELEMENT stc:HiLimit (#PCDATA)>
<!ATTLIST stc:HiLimit %stc.attributes;>
<!ELEMENT DopplerDefinition (#PCDATA)>
<!ATTLIST DopplerDefinition %stc.attributes;>
<!ELEMENT stc:DopplerDefinition (#PCDATA)>
<!ATTLIST stc:DopplerDefinition %stc.attributes;>
<!ELEMENT PlanetaryEphem (#PCDATA)>
<!ATTLIST PlanetaryEphem %stc.attributes;>
<!ELEMENT stc:PlanetaryEphem (#PCDATA)>
<!ATTLIST stc:PlanetaryEphem %stc.attributes;>
