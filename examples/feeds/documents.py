"""Made-up documents of public formats: alike in form, not copied."""

from __future__ import annotations

import json
from random import Random
from typing import Final

CAP: Final = "urn:oasis:names:tc:emergency:cap:1.2"
ATOM: Final = "http://www.w3.org/2005/Atom"
SIRI: Final = "http://www.siri.org.uk/siri"
TFM: Final = "urn:us:gov:dot:faa:atm:tfm"
IWXXM: Final = "http://icao.int/iwxxm/3.0"
_GML: Final = "http://www.opengis.net/gml/3.2"
_AIXM: Final = "http://www.aixm.aero/schema/5.1.1"
_XLINK: Final = "http://www.w3.org/1999/xlink"

_COUNTIES: Final = ("Ash", "Birch", "Cedar", "Elm")
_AIRPORTS: Final = ("KAAA", "KBBB", "KCCC", "KDDD")


def alert(chance: Random, number: int, prefix: str = "") -> str:
    """A CAP alert, in a default namespace or with a prefix."""
    p, binding = (f"{prefix}:", f":{prefix}") if prefix else ("", "")
    severity = ("Extreme", "Severe", "Moderate", "Minor")[number % 4]
    area = chance.choice(_COUNTIES)
    circle = f"<{p}circle>{_latitude(chance)},{_longitude(chance)} 25</{p}circle>"
    return (
        f'<{p}alert xmlns{binding}="{CAP}"><{p}identifier>made-up.{number}</{p}identifier>'
        f"<{p}sender>warnings@example.org</{p}sender><{p}sent>{_time(number)}-00:00</{p}sent>"
        f"<{p}status>Exercise</{p}status><{p}msgType>Alert</{p}msgType><{p}scope>Public</{p}scope>"
        f"<{p}info><{p}category>Met</{p}category><{p}event>Wind warning</{p}event>"
        f"<{p}urgency>Expected</{p}urgency><{p}severity>{severity}</{p}severity>"
        f"<{p}certainty>Likely</{p}certainty><{p}headline>Gusts of {chance.randrange(60, 160)} "
        f"km/h in {area}</{p}headline><{p}area><{p}areaDesc>{area} county</{p}areaDesc>"
        f"{circle if number % 3 else ''}<{p}geocode><{p}valueName>MADE-UP</{p}valueName>"
        f"<{p}value>{chance.randrange(1000)}</{p}value></{p}geocode></{p}area></{p}info></{p}alert>"
    )


def alert_feed(alerts: list[str]) -> str:
    """An Atom feed with alerts."""
    entries = "".join(
        f'<entry><content type="text/xml">{each}</content></entry>' for each in alerts
    )
    return f'<feed xmlns="{ATOM}"><title>Warnings</title>\n{entries}</feed>\n'


def vehicles(chance: Random, count: int) -> str:
    """A SIRI delivery with the positions of vehicles."""
    activities = "\n".join(_vehicle(chance, number) for number in range(count))
    return (
        f'<Siri xmlns="{SIRI}" version="2.0"><ServiceDelivery>'
        f"<ResponseTimestamp>{_time(0)}Z</ResponseTimestamp>"
        f'<VehicleMonitoringDelivery version="2.0">\n{activities}\n'
        "</VehicleMonitoringDelivery></ServiceDelivery></Siri>\n"
    )


def _vehicle(chance: Random, number: int) -> str:
    occupancy = "<Occupancy>full</Occupancy>" if number % 5 == 0 else ""
    return (
        f"<VehicleActivity><RecordedAtTime>{_time(number)}Z</RecordedAtTime>"
        f"<MonitoredVehicleJourney><LineRef>{number % 8 + 1}</LineRef>"
        f"<DirectionRef>{number % 2 + 1}</DirectionRef><VehicleLocation>"
        f"<Longitude>{_longitude(chance)}</Longitude><Latitude>{_latitude(chance)}</Latitude>"
        f"</VehicleLocation><Delay>PT{chance.randrange(300)}S</Delay>{occupancy}"
        f"<VehicleRef>bus-{number}</VehicleRef></MonitoredVehicleJourney></VehicleActivity>"
    )


def flight_messages(chance: Random, first: int, count: int, *, swapped: bool = False) -> str:
    """A TFMS delivery; `swapped` binds two prefixes the other way round."""
    f, c = ("ns4", "ns2") if swapped else ("ns2", "ns4")
    messages = "\n".join(_flight(chance, first + number, f, c) for number in range(count))
    return (
        f'<ds:tfmDataService xmlns:ds="{TFM}:tfmdataservice" xmlns="{TFM}:tfmdataservice" '
        f'xmlns:{f}="{TFM}:flightdata" xmlns:{c}="{TFM}:flightdatacommonmessages" '
        f'xmlns:ns5="{TFM}:tfmdatacoreelements"><fltdOutput>\n{messages}\n'
        "</fltdOutput></ds:tfmDataService>\n"
    )


def _flight(chance: Random, number: int, f: str, c: str) -> str:
    acid, origin, target = f"XYZ{100 + number}", *chance.sample(_AIRPORTS, 2)
    return (
        f'<{f}:fltdMessage acid="{acid}" arrArpt="{target}" depArpt="{origin}" '
        f'flightRef="{7_000_000 + number}" msgType="trackInformation" '
        f'sourceTimeStamp="{_time(number)}Z"><{f}:trackInformation><{c}:qualifiedAircraftId>'
        f"<ns5:aircraftId>{acid}</ns5:aircraftId><ns5:departurePoint>"
        f"<ns5:airport>{origin}</ns5:airport></ns5:departurePoint><ns5:arrivalPoint>"
        f"<ns5:airport>{target}</ns5:airport></ns5:arrivalPoint></{c}:qualifiedAircraftId>"
        f"<{c}:speed>{300 + 7 * number % 200}</{c}:speed><{c}:position><ns5:latitude>"
        f'<ns5:latitudeDMS degrees="{chance.randrange(25, 49)}" direction="NORTH" minutes='
        f'"{chance.randrange(60)}"/></ns5:latitude><ns5:longitude><ns5:longitudeDMS degrees='
        f'"{chance.randrange(67, 125)}" direction="WEST" minutes="{chance.randrange(60)}"/>'
        f"</ns5:longitude></{c}:position><{c}:timeAtPosition>{_time(number)}Z"
        f"</{c}:timeAtPosition></{f}:trackInformation></{f}:fltdMessage>"
    )


def metar(chance: Random, number: int, prefix: str = "iwxxm") -> str:
    """An IWXXM report of an airport's weather."""
    p, g = f"{prefix}:", "gml:"
    airport = chance.choice(_AIRPORTS)
    weather = f'<{p}presentWeather xlink:href="http://codes.wmo.int/306/4678/RA"/>'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{p}METAR xmlns:{prefix}="{IWXXM}" '
        f'xmlns:gml="{_GML}" xmlns:aixm="{_AIXM}" xmlns:xlink="{_XLINK}" '
        f'gml:id="metar-{number}" reportStatus="NORMAL" automatedStation="true">'
        f'<{p}issueTime><{g}TimeInstant gml:id="issue-{number}">'
        f"<{g}timePosition>{_time(number)}Z</{g}timePosition></{g}TimeInstant></{p}issueTime>"
        f'<{p}aerodrome><aixm:AirportHeliport gml:id="airport-{number}">'
        f"<aixm:designator>{airport}</aixm:designator></aixm:AirportHeliport></{p}aerodrome>"
        f'<{p}observation><{p}MeteorologicalAerodromeObservation gml:id="seen-{number}" '
        f'cloudAndVisibilityOK="false">'
        f'<{p}airTemperature uom="Cel">{chance.randrange(-20, 35)}.0</{p}airTemperature>'
        f'<{p}qnh uom="hPa">{chance.randrange(970, 1040)}</{p}qnh><{p}surfaceWind>'
        f'<{p}AerodromeSurfaceWind variableWindDirection="false">'
        f'<{p}meanWindDirection uom="deg">{chance.randrange(360)}</{p}meanWindDirection>'
        f'<{p}meanWindSpeed uom="m/s">{number % 25}.0</{p}meanWindSpeed>'
        f"</{p}AerodromeSurfaceWind></{p}surfaceWind>{weather if number % 2 else ''}"
        f"</{p}MeteorologicalAerodromeObservation></{p}observation></{p}METAR>\n"
    )


def cursor(chance: Random, number: int) -> str:
    """A Cursor-on-Target event."""
    remarks = f"<remarks>unit {number}</remarks>" if number % 4 == 0 else ""
    return (
        f'<event version="2.0" uid="unit-{number}" type="a-f-G-U-C" how="m-g" '
        f'time="{_time(number)}Z" start="{_time(number)}Z" stale="{_time(number + 5)}Z">'
        f'<point lat="{_latitude(chance)}" lon="{_longitude(chance)}" hae="{number}.5" ce="9.9" '
        f'le="9999999.0"/><detail><contact callsign="MADE-UP-{number}"/>'
        f'<track course="{chance.randrange(360)}" speed="{number % 30}.0"/>{remarks}'
        "</detail></event>\n"
    )


def article(chance: Random, number: int) -> str:
    """A NITF article, with text between elements."""
    county, gusts = chance.choice(_COUNTIES), chance.randrange(60, 160)
    more = "<p>More follows.</p>" if number % 3 == 0 else ""
    return (
        f"<nitf><head><title>Storm in {county}</title>"
        f'<docdata><doc-id id-string="made-up-{number}"/><urgency ed-urg="{number % 8 + 1}"/>'
        f"</docdata></head><body><body.head><hedline><hl1>Storm in {county}</hl1></hedline>"
        f"</body.head><body.content><p>Gusts of <em>{gusts} km/h</em> hit "
        f"<location>{county}</location> on <chron>{_time(number)}</chron>.</p>{more}"
        "</body.content></body></nitf>\n"
    )


def earthquakes(chance: Random, count: int) -> str:
    """A GeoJSON collection."""
    features = [
        {
            "type": "Feature",
            "id": f"made-up-{number}",
            "properties": {"mag": round(1 + number % 6 + chance.random() / 2, 1), "place": place},
            "geometry": {
                "type": "Point",
                "coordinates": [float(_longitude(chance)), float(_latitude(chance))],
            },
        }
        for number, place in enumerate(chance.choices(_COUNTIES, k=count))
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def _time(number: int) -> str:
    return f"2026-11-20T{12 + number // 60 % 12:02}:{number % 60:02}:00"


def _latitude(chance: Random) -> str:
    return f"{chance.uniform(25, 49):.4f}"


def _longitude(chance: Random) -> str:
    return f"{chance.uniform(-125, -67):.4f}"
