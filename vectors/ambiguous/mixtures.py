"""Cases in which a value is not where the type or the rule says: words in Content-Type, patches, JSON in forms, equal
members beside a filter, and shapes that lenient mappers accept."""

import json
from urllib.parse import quote

from corpus import ALL, FORM, FORM_ONLY, JSON, JSON_ONLY, MULTIPART, SECRET, add
from documents import CARD, FLAT
from forms import END, part

ANY_FORM, FILTER, STRICT, LIST = "/v1/any-form", "/v1/filter", "/v1/strict", "/v1/list"
FIELD = f"card_number={SECRET}"


def mixtures() -> None:
    words()
    changes()
    inner_changes()
    inside_forms()
    inside_strings()
    filters()
    shapes()


def words() -> None:
    """Readers that search Content-Type for a word, or read only its parameters."""
    in_string = f'{{"a":"&{FIELD}&"}}'
    in_parts = part('form-data; name="card_number"').replace("--B", "--json") + "--json--\r\n"
    in_other_part = part('form-data; name="a"', FLAT).replace("--B", "--json") + "--json--\r\n"
    for name, kind, body in [
        ("quoted", f'{FORM}; a="json"', FLAT),
        ("bare", f"{FORM}; json=1", FLAT),
        ("bare-nested", f"{FORM}; json=1", CARD),
        ("name", f"{FORM};json", FLAT),
        ("upper", f"{FORM}; A=JSON", FLAT),
        ("slash", f'{FORM}; a="/json"', FLAT),
        ("suffix", f'{FORM}; a="x+json"', FLAT),
        ("type", f'{FORM}; type="{JSON}"', FLAT),
        ("charset", f"{FORM}; charset=utf-8; a=json", FLAT),
        ("form-behind", f"{FORM}; json=1", f"{FLAT}&a=1"),
        ("form-before", f"{FORM}; json=1", f"a=1&{FLAT}"),
        ("form-field", f"{FORM}; json=1", f"a={FLAT}"),
        ("parts", f"{MULTIPART}; a=json", FLAT),
        ("parts-field", f"{MULTIPART}; a=json", part('form-data; name="card_number"') + END),
        ("boundary", "multipart/form-data; boundary=json", in_parts),
        ("boundary-other", "multipart/form-data; boundary=json", in_other_part),
        ("form-boundary", f"{FORM}; boundary=B", part('form-data; name="card_number"') + END),
        ("form-multipart", f"{FORM}; a=multipart; boundary=B", part('form-data; name="card_number"') + END),
        ("json-urlencoded", f'{JSON}; a="{FORM}"', in_string),
        ("json-urlencoded-word", f"{JSON}; urlencoded=1", in_string),
        ("json-multipart", f"{JSON}; a=multipart; boundary=B", f'{{"a":"{SECRET}"}}'),
        ("json-multipart-parts", f"{JSON}; multipart=1; boundary=B", part('form-data; name="card_number"') + END),
        ("octet-stream", f"{FORM}; a=octet-stream", FIELD),
        ("text", "text/plain; a=json", FLAT),
        ("text-urlencoded", f'text/plain; a="{FORM}"', FIELD),
    ]:
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form"), (JSON_ONLY, "-at-json"), (ANY_FORM, "-at-any")):
            add("words", f"{name}{ending}", "a word of another type in Content-Type", body, kind, target=route)


def changes() -> None:
    """Documents of changes, in which the path of a value is a value, in more shapes than those beside the other documents."""
    add_card = f'{{"op":"add","path":"/card_number","value":"{SECRET}"}}'
    for name, body, kind in [
        ("plain", f"[{add_card}]", JSON),
        ("typed", f"[{add_card}]", "application/json-patch+json"),
        ("typed-parameter", f"[{add_card}]", "application/json-patch+json; charset=utf-8"),
        ("second", f'[{{"op":"test","path":"/id","value":"1"}},{add_card}]', JSON),
        ("replace", f'[{{"op":"replace","path":"/card","value":{{"number":"{SECRET}"}}}}]', JSON),
        ("whole", f'[{{"op":"replace","path":"","value":{FLAT}}}]', JSON),
        ("moved", f'[{{"op":"add","path":"/x","value":"{SECRET}"}},{{"op":"move","from":"/x","path":"/card_number"}}]', JSON),
        ("copied", f'[{{"op":"add","path":"/x","value":{{"n":"{SECRET}"}}}},{{"op":"copy","from":"/x/n","path":"/card_number"}}]', JSON),
        ("names-escaped", f'[{{"\\u006fp":"add","p\\u0061th":"/card_number","value":"{SECRET}"}}]', JSON),
        ("path-escaped", f'[{{"op":"add","path":"\\/card\\u005fnumber","value":"{SECRET}"}}]', JSON),
        ("path-twice", f'[{{"op":"add","path":"/x","path":"/card_number","value":"{SECRET}"}}]', JSON),
        ("path-twice-first", f'[{{"op":"add","path":"/card_number","path":"/x","value":"{SECRET}"}}]', JSON),
        ("op-twice", f'[{{"op":"test","op":"add","path":"/card_number","value":"{SECRET}"}}]', JSON),
        ("byte-order-mark", f"\ufeff[{add_card}]", JSON),
        ("mixed", f'[{{"a":1}},{add_card}]', JSON),
        ("empty-first", f"[[],{add_card}]", JSON),
        ("text", f"[{add_card}]", "text/json"),
        ("merge", f"[{add_card}]", "application/merge-patch+json"),
        ("scim", scim(f'{{"op":"replace","path":"card.number","value":"{SECRET}"}}'), JSON),
        ("scim-typed", scim(f'{{"op":"replace","path":"card.number","value":"{SECRET}"}}'), "application/scim+json"),
        ("scim-upper", scim(f'{{"op":"Replace","path":"card_number","value":"{SECRET}"}}'), JSON),
        ("scim-no-path", scim(f'{{"op":"add","value":{{"card.number":"{SECRET}"}}}}'), JSON),
        ("scim-no-schema", f'{{"Operations":[{{"op":"replace","path":"card_number","value":"{SECRET}"}}]}}', JSON),
        ("scim-escaped", f'{{"Oper\\u0061tions":[{{"op":"replace","path":"card_number","value":"{SECRET}"}}]}}', JSON),
        ("scim-path-escaped", f'{{"Operations":[{{"op":"replace","p\\u0061th":"card\\u005fnumber","value":"{SECRET}"}}]}}', JSON),
    ]:
        for route, ending in ((ALL, ""), (JSON_ONLY, "-at-json")):
            add("changes", f"{name}{ending}", "a document of changes", body, kind, target=route)


def inner_changes() -> None:
    """Patches that are not the whole body, and operations that only some libraries apply."""
    add_card = f'{{"op":"add","path":"/card_number","value":"{SECRET}"}}'
    replace = f'{{"op":"replace","path":"card_number","value":"{SECRET}"}}'
    for name, body, kind in [
        ("member", f'{{"patch":[{add_card}]}}', JSON),
        ("member-nested", f'{{"patch":[{{"op":"replace","path":"/card/number","value":"{SECRET}"}}]}}', JSON),
        ("member-alone", f'{{"patch":{add_card}}}', JSON),
        ("member-deep", f'{{"data":{{"changes":[{{"patch":[{add_card}]}}]}}}}', JSON),
        ("member-upper", f'{{"patch":[{{"Op":"Add","PATH":"/card_number","Value":"{SECRET}"}}]}}', JSON),
        ("member-escaped", f'{{"patch":[{{"\\u006fp":"\\u0061dd","p\\u0061th":"/card_number","value":"{SECRET}"}}]}}', JSON),
        ("member-op-twice", f'{{"patch":[{{"op":"x","op":"add","path":"/card_number","value":"{SECRET}"}}]}}', JSON),
        ("member-root", f'{{"patch":[{{"op":"replace","path":"","value":{FLAT}}}]}}', JSON),
        ("member-scim", f'{{"patch":{scim(replace)}}}', JSON),
        ("element", f"[[{add_card}]]", JSON),
        ("in-value", f'[{{"op":"add","path":"/patch","value":[{add_card}]}}]', JSON),
        ("lines", f'{{"a":1}}\n{{"patch":[{add_card}]}}\n', "application/x-ndjson"),
        ("lines-list", f"[{add_card}]\n", "application/x-ndjson"),
        ("path-list", f'[{{"op":"add","path":["card_number"],"value":"{SECRET}"}}]', JSON),
        ("path-empty-name", f'[{{"op":"add","path":"//card_number","value":"{SECRET}"}}]', JSON),
        ("path-empty-name-inside", f'[{{"op":"add","path":"/card//number","value":"{SECRET}"}}]', JSON),
        ("path-percent", f'[{{"op":"add","path":"/card%5Fnumber","value":"{SECRET}"}}]', JSON),
        ("op-number", f'[{{"op":0,"path":"/card_number","value":"{SECRET}"}}]', JSON),
        ("op-digit", f'[{{"op":"0","path":"/card_number","value":"{SECRET}"}}]', JSON),
        ("op-space", f'[{{"op":" add ","path":"/card_number","value":"{SECRET}"}}]', JSON),
    ]:
        for route, ending in ((ALL, ""), (JSON_ONLY, "-at-json")):
            add("changes", f"inner-{name}{ending}", "a patch that is not the whole body", body, kind, target=route)


def scim(operation: str) -> str:
    return f'{{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{operation}]}}'


def inside_forms() -> None:
    """JSON that is not the whole body."""
    named = 'form-data; name="payload"'
    file = f'{named}; filename="f"'
    for name, body, kind in [
        ("field", f"payload={CARD}", FORM),
        ("field-flat", f"payload={FLAT}", FORM),
        ("field-encoded", "payload=" + "".join(f"%{byte:02X}" for byte in CARD.encode()), FORM),
        ("field-space", f"payload=+%0A{CARD}", FORM),
        ("field-escaped", f'payload={{"card\\u005fnumber":"{SECRET}"}}', FORM),
        ("field-second", f"a=1&payload={FLAT}", FORM),
        ("part", part(named, CARD) + END, MULTIPART),
        ("part-typed", part(named, CARD, f"Content-Type: {JSON}") + END, MULTIPART),
        ("part-suffix", part(named, CARD, "Content-Type: application/x+json") + END, MULTIPART),
        ("part-word", part(named, CARD, 'Content-Type: text/plain; a="application/json"') + END, MULTIPART),
        ("part-type-twice", part(named, CARD, "Content-Type: text/plain", f"Content-Type: {JSON}") + END, MULTIPART),
        ("part-space", part(named, f"\r\n\t{CARD}") + END, MULTIPART),
        ("part-mark", part(named, f"\ufeff{CARD}") + END, MULTIPART),
        ("file", part(file, CARD, f"Content-Type: {JSON}") + END, MULTIPART),
        ("file-untyped", part(file, CARD) + END, MULTIPART),
        ("file-octets", part(file, CARD, "Content-Type: application/octet-stream") + END, MULTIPART),
        ("file-mark", part(file, f"\ufeff{CARD}", "Content-Type: text/plain") + END, MULTIPART),
        ("file-utf-16", part(file, CARD, "Content-Type: text/plain").encode().replace(CARD.encode(), CARD.encode("utf-16")) + END.encode(), MULTIPART),
    ]:
        add("inside", f"{name}-at-json", "JSON in a form", body, kind, target=JSON_ONLY)


def inside_strings() -> None:
    """JSON in a string, once or several times."""
    def payload(text: str) -> str:
        return json.dumps({"payload": text})

    def in_texts(text: str, levels: int) -> str:
        return text if levels == 0 else json.dumps(in_texts(text, levels - 1))

    escaped = f'{{"card\\u005fnumber":"{SECRET}"}}'
    units = "".join(f"\\u{ord(letter):04x}" for letter in FLAT)
    for name, body in [
        ("card", payload(CARD)),
        ("flat", payload(FLAT)),
        ("list", payload(f"[{FLAT}]")),
        ("inner", payload(f'{{"data":{{"x":[{FLAT}]}}}}')),
        ("twice", payload(in_texts(FLAT, 1))),
        ("three-times", payload(in_texts(CARD, 2))),
        ("many-times", payload(in_texts(FLAT, 9))),
        ("text-in-text", payload(payload(FLAT))),
        ("name-escaped", payload(escaped)),
        ("name-escaped-twice", payload(in_texts(escaped, 1))),
        ("outer-escapes", f'{{"payload":"{units}"}}'),
        ("space", payload(f" \r\n\t{FLAT}")),
        ("byte-order-mark", payload(f"\ufeff{FLAT}")),
        ("nan", payload(f'{{"a":NaN,"card_number":"{SECRET}"}}')),
        ("surrogate", payload(f'{{"a":"\\ud800","card_number":"{SECRET}"}}')),
        ("deep", payload(f'{{"a":{"[" * 200}{"]" * 200},"card_number":"{SECRET}"}}')),
        ("upper", payload(f'{{"CARD_NUMBER":"{SECRET}"}}')),
        ("comment", payload(f'/*"*/{FLAT}')),
        ("comment-inside", payload(f'{{"a":1,/*"*/"card_number":"{SECRET}"/*"*/}}')),
        ("behind-scalar", payload(f"1\n{FLAT}")),
        ("behind-document", payload(f'{{"a":1}}{FLAT}')),
        ("prefix", payload(f")]}}'\n{FLAT}")),
        ("apostrophes", payload(f"{{'card_number':'{SECRET}'}}")),
        ("bare-name", payload(f"{{card_number:{SECRET}}}")),
        ("at-selected-place", json.dumps({"card": f'{{"number":"{SECRET}"}}'})),
        ("element", json.dumps([FLAT])),
        ("root", json.dumps(FLAT)),
    ]:
        add("inside", f"string-{name}-at-json", "JSON in a string", body, JSON, target=JSON_ONLY)
        add("inside", f"string-{name}-lines-at-json", "JSON in a string", f'{{"a":1}}\n{body}\n', "application/x-ndjson", target=JSON_ONLY)
    part_of = 'form-data; name="payload"'
    for name, text in [
        ("twice", in_texts(CARD, 1)),
        ("three-times", in_texts(FLAT, 2)),
        ("comment", f'/*"*/{CARD}'),
        ("nan", f'{{"a":NaN,"card_number":"{SECRET}"}}'),
        ("behind", f'{{"a":1}}{FLAT}'),
        ("late", f'{{"a":"{"x" * 5000}","card_number":"{SECRET}"}}'),
    ]:
        file = part(f'{part_of}; filename="f"', text, "Content-Type: text/plain")
        for which, body, kind in [
            ("field", f"payload={quote(text)}", FORM),
            ("part", part(part_of, text) + END, MULTIPART),
            ("file", file + END, MULTIPART),
        ]:
            for route, ending in ((ALL, ""), (JSON_ONLY, "-at-json")):
                add("inside", f"{which}-text-{name}{ending}", "JSON in a form", body, kind, target=route)
    for name, text in [("", CARD), ("-twice", in_texts(FLAT, 1))]:
        add("inside", f"query{name}", "JSON in the query of a form", "a=1", FORM, target=f"{ALL}?payload={quote(text)}")
    notes = ["{name}, card_number: see {card}", "[urgent] card_number: 5", "card_number", '"card_number": 5', "#card_number: 1", '{"a": "card_number"}']
    for number, note in enumerate(notes):
        body = json.dumps({"card_number": SECRET, "note": note})
        add("inside", f"plain-{number}-at-json", "a text that is no JSON with the name", body, JSON, target=JSON_ONLY, accepted=True)


def filters() -> None:
    """Members that decide about a filter, and that two readers read differently."""
    def payments(*members: str) -> str:
        return f'{{"payments":[{{{",".join(members)}}}]}}'

    card, bank, number = '"kind":"card"', '"kind":"bank"', f'"number":"{SECRET}"'
    for name, body, accepted in [
        ("plain", payments(card, number), True),
        ("escaped", payments('"k\\u0069nd":"c\\u0061rd"', number), True),
        ("number-escaped", payments(card, f'"n\\u0075mber":"{SECRET}"'), True),
        ("twice", payments(card, bank, number), False),
        ("twice-reversed", payments(bank, card, number), False),
        ("twice-escaped", payments(card, '"k\\u0069nd":"bank"', number), False),
        ("twice-behind", payments(card, number, bank), False),
        ("twice-same", payments(card, card, number), False),
        ("number-twice", payments(card, '"number":"x"', number), False),
        ("number-twice-reversed", payments(card, number, '"number":"x"'), False),
        ("payments-twice", f'{{"payments":[],"payments":[{{{card},{number}}}]}}', False),
        ("payments-twice-reversed", f'{{"payments":[{{{card},{number}}}],"payments":[]}}', False),
        ("other-case", payments('"Kind":"card"', bank, number), False),
        ("null-behind", payments('"kind":"card\\u0000"', number), False),
        ("null-behind-name", payments('"kind\\u0000":"card"', number), False),
        ("object", f'{{"payments":{{"a":{{{card},{number}}}}}}}', False),
        ("in-list", f'[{payments(card, number)}]', False),
    ]:
        add("filter", name, "a member that a filter looks at", body, JSON, target=FILTER, accepted=accepted)


def shapes() -> None:
    """Shapes that mappers convert to the one that a selector expects."""
    number = f'"number":"{SECRET}"'
    for name, body, target, accepted in [
        ("list-plain", f'{{"cards":[{{{number}}}]}}', LIST, True),
        ("list-single", f'{{"cards":{{{number}}}}}', LIST, False),
        ("list-nested", f'{{"cards":[[{{{number}}}]]}}', LIST, False),
        ("list-in-list", f'[{{"cards":[{{{number}}}]}}]', LIST, False),
        ("list-index", f'{{"cards":{{"0":{{{number}}}}}}}', LIST, False),
        ("list-upper", f'{{"Cards":[{{{number}}}]}}', LIST, False),
        ("list-number-list", f'{{"cards":[{{"number":["{SECRET}"]}}]}}', LIST, False),
        ("object-in-list", f"[{FLAT}]", STRICT, False),
        ("object-in-lists", f"[[{FLAT}]]", STRICT, False),
        ("wrapped", f'{{"Payment":{FLAT}}}', STRICT, False),
        ("wrapped-lower", f'{{"payment":{FLAT}}}', STRICT, False),
        ("upper", f'{{"CARD_NUMBER":"{SECRET}"}}', STRICT, False),
        ("apostrophes", f"{{'card_number':'{SECRET}'}}", STRICT, False),
        ("bare-name", f'{{card_number:"{SECRET}"}}', STRICT, False),
        ("comment", f'# "card_number":"x"\n{FLAT}', STRICT, False),
        ("trailing-comma", f'{{"card_number":"{SECRET}",}}', STRICT, False),
    ]:
        add("shapes", name, "a shape that a lenient mapper accepts", body, JSON, target=target, accepted=accepted)
    add("shapes", "plain", "the shape that the selector expects", FLAT, JSON, target=STRICT, accepted=True)
