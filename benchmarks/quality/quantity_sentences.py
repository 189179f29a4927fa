"""Sentences with a place for a number, and units, in English and German."""

from __future__ import annotations

UNITS: tuple[dict[str, tuple[str, ...]], ...] = (
    {
        "en": ("km/h", "kilometers per hour", "kilometres per hour", "kph"),
        "de": ("km/h", "Kilometer pro Stunde", "Stundenkilometer*", "Kilometern pro Stunde"),
    },
    {"en": ("kg", "kilograms", "kilos", "kilogrammes", "kilogram"), "de": ("kg", "Kilogramm", "Kilo*")},
    {"en": ("km", "kilometers", "kilometres", "kilometer", "kilometre"), "de": ("km", "Kilometer", "Kilometern")},
    {"en": ("m", "meters", "metres", "meter", "metre"), "de": ("m", "Meter", "Metern")},
    {"en": ("cm", "centimeters", "centimetres", "centimeter", "centimetre"), "de": ("cm", "Zentimeter", "Zentimetern")},
    {"en": ("GB", "gigabytes"), "de": ("GB", "Gigabyte", "Gigabytes")},
    {"en": ("°C", "degrees", "degrees Celsius"), "de": ("°C", "Grad", "Grad Celsius")},
    {"en": ("liters", "litres", "l", "liter"), "de": ("Liter", "Litern", "l")},
    {"en": ("tons", "tonnes", "t", "ton"), "de": ("Tonnen", "t", "Tonne")},
)
"""By language: how it writes a unit, its symbol first."""

TEMPLATES: dict[str, dict[str, tuple[str, ...]]] = {
    "integers": {
        "en": (
            "The town has {} inhabitants.",
            "We sold {} tickets last year.",
            "About {} people came to the concert.",
            "The company employs {} people worldwide.",
            "There are {} books in this library.",
            "Last month the museum had {} visitors.",
        ),
        "de": (
            "Die Stadt hat {} Einwohner.",
            "Wir haben letztes Jahr {} Karten verkauft.",
            "Etwa {} Menschen kamen zu dem Konzert.",
            "Das Unternehmen beschäftigt weltweit {} Mitarbeiter.",
            "In dieser Bibliothek gibt es {} Bücher.",
            "Im letzten Monat hatte das Museum {} Besucher.",
        ),
    },
    "decimals": {
        "en": (
            "The average is {}.",
            "The value rose to {} in the second test.",
            "The factor is {}, which is too high.",
            "Its index fell from zero to {} points.",
            "On average a woman has {} children.",
            "The result of the measurement was {}.",
        ),
        "de": (
            "Der Durchschnitt liegt bei {}.",
            "Der Wert stieg im zweiten Test auf {}.",
            "Der Faktor beträgt {}, was zu hoch ist.",
            "Der Index fiel auf {} Punkte.",
            "Im Durchschnitt hat eine Frau {} Kinder.",
            "Das Ergebnis der Messung war {}.",
        ),
    },
    "amounts": {
        "en": (
            "The ticket costs {}.",
            "She paid {} for the car.",
            "Please transfer {} to our account.",
            "The fine is {} per person.",
            "He won {} in the lottery.",
            "The price was reduced to {} yesterday.",
        ),
        "de": (
            "Die Karte kostet {}.",
            "Sie hat {} für das Auto bezahlt.",
            "Bitte überweisen Sie {} auf unser Konto.",
            "Die Strafe beträgt {} pro Person.",
            "Er hat {} im Lotto gewonnen.",
            "Der Preis wurde gestern auf {} gesenkt.",
        ),
    },
    "large amounts": {
        "en": (
            "The project costs {}.",
            "The company made a profit of {} last year.",
            "The government will invest {} in schools.",
            "The damage is estimated at {}.",
            "Sales rose to {} in the third quarter.",
        ),
        "de": (
            "Das Projekt kostet {}.",
            "Das Unternehmen machte im letzten Jahr einen Gewinn von {}.",
            "Die Regierung wird {} in Schulen investieren.",
            "Der Schaden wird auf {} geschätzt.",
            "Der Umsatz stieg im dritten Quartal auf {}.",
        ),
    },
    "percentages": {
        "en": (
            "Prices rose by {} last year.",
            "The unemployment rate is {}.",
            "Only {} of the students passed the exam.",
            "You save {} on every order.",
            "About {} of the land is forest.",
        ),
        "de": (
            "Die Preise stiegen im letzten Jahr um {}.",
            "Die Arbeitslosenquote liegt bei {}.",
            "Nur {} der Schüler haben die Prüfung bestanden.",
            "Sie sparen {} bei jeder Bestellung.",
            "Etwa {} des Landes sind Wald.",
        ),
    },
    "dates": {
        "en": (
            "The meeting is on {}.",
            "She was born on {} in a small village.",
            "The contract ends on {}.",
            "Please reply by {}.",
            "On {} the museum opens again.",
        ),
        "de": (
            "Das Treffen ist am {}.",
            "Sie wurde am {} in einem kleinen Dorf geboren.",
            "Der Vertrag endet am {}.",
            "Bitte antworten Sie bis zum {}.",
            "Am {} öffnet das Museum wieder.",
        ),
    },
    "times": {
        "en": (
            "The train leaves at {}.",
            "We meet at {} in front of the station.",
            "The shop closes at {} today.",
            "The film starts at {}.",
            "Call me at {} tomorrow.",
        ),
        "de": (
            "Der Zug fährt um {} ab.",
            "Wir treffen uns um {} vor dem Bahnhof.",
            "Das Geschäft schließt heute um {}.",
            "Der Film beginnt um {}.",
            "Ruf mich morgen um {} an.",
        ),
    },
    "time ranges": {
        "en": ("The office is open {}.", "The library is open {} on weekdays.", "Breakfast is served {}."),
        "de": ("Das Büro ist {} geöffnet.", "Die Bibliothek ist werktags {} geöffnet.", "Frühstück gibt es {}."),
    },
    "units": {
        "en": (
            "The limit is {} here.",
            "We measured {} this morning.",
            "The device shows {} now.",
            "At most {} are allowed.",
        ),
        "de": (
            "Das Limit liegt hier bei {}.",
            "Wir haben heute Morgen {} gemessen.",
            "Das Gerät zeigt jetzt {} an.",
            "Höchstens {} sind erlaubt.",
        ),
    },
    "ordinals": {
        "en": (
            "She finished in {} place.",
            "We celebrate her {} birthday.",
            "Our office is on the {} floor.",
            "It was their {} attempt.",
        ),
        "de": (
            "Sie belegte den {} Platz.",
            "Wir feiern ihren {} Geburtstag.",
            "Unser Büro ist im {} Stock.",
            "Es war ihr {} Versuch.",
        ),
    },
    "ranges": {
        "en": (
            "It takes {} minutes.",
            "The tree grows {} meters high.",
            "We expect {} guests.",
            "The children are {} months old.",
        ),
        "de": (
            "Es dauert {} Minuten.",
            "Der Baum wird {} Meter hoch.",
            "Wir erwarten {} Gäste.",
            "Die Kinder sind {} Monate alt.",
        ),
    },
    "kept": {
        "en": (
            "The number is {}.",
            "You can find it under {} in the list.",
            "Please write down {} and keep it.",
            "The old entry was {}.",
        ),
        "de": (
            "Die Nummer lautet {}.",
            "Sie finden es unter {} in der Liste.",
            "Bitte schreiben Sie sich {} auf.",
            "Der alte Eintrag war {}.",
        ),
    },
    "versions": {
        "en": ("You need {} for this program.", "The problem is solved in {}.", "We still use {} at work."),
        "de": (
            "Für dieses Programm brauchen Sie {}.",
            "In {} ist das Problem behoben.",
            "Wir verwenden bei der Arbeit noch {}.",
        ),
    },
}
"""By kind of value and language: sentences with a place for it."""
