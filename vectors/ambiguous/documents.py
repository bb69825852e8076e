"""Cases whose body is a JSON document: names of members, structure, and Content-Type."""

from corpus import ALL, FORM, FORM_ONLY, JSON, JSON_ONLY, MULTIPART, SECRET, add

CARD = f'{{"card":{{"number":"{SECRET}"}}}}'
FLAT = f'{{"card_number":"{SECRET}"}}'


def patches() -> None:
    """Documents that describe changes: the path of the value is a value itself."""
    nested, flat = f'{{"number":"{SECRET}"}}', f'"{SECRET}"'
    operations = {
        "add": f'{{"op":"add","path":"/card_number","value":{flat}}}',
        "replace": f'{{"op":"replace","path":"/card/number","value":{flat}}}',
        "value-first": f'{{"value":{flat},"path":"/card/number","op":"add"}}',
        "above": f'{{"op":"add","path":"/card","value":{nested}}}',
        "root": f'{{"op":"replace","path":"","value":{{"card":{nested}}}}}',
        "upper": f'{{"Op":"Add","Path":"/card_number","Value":{flat}}}',
        "upper-path": f'{{"op":"add","path":"/Card_Number","value":{flat}}}',
        "escaped": f'{{"\\u006fp":"add","p\\u0061th":"\\/card_number","value":{flat}}}',
        "move": f'{{"op":"add","path":"/x","value":{flat}}},{{"op":"move","from":"/x","path":"/card_number"}}',
    }
    types = {"": JSON, "-typed": "application/json-patch+json", "-merge": "application/merge-patch+json", "-scim": "application/scim+json"}
    for name, operation in operations.items():
        for ending, kind in types.items():
            add("patch", f"{name}{ending}", "a JSON Patch", f"[{operation}]", kind)
    add("patch", "alone", "an operation without its list", operations["add"], JSON)
    for name, value in (("path", f'"path":"card_number","value":{flat}'), ("value", f'"value":{{"card":{nested}}}')):
        body = f'{{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{{"op":"add",{value}}}]}}'
        for ending, kind in types.items():
            add("patch", f"scim-{name}{ending}", "a SCIM patch", body, kind)


def documents() -> None:
    topic = "json"
    for name, text, about, accepted in [
        ("nested", CARD, "the name itself", True),
        ("flat", FLAT, "the name itself", True),
        ("key", f'{{"secret_key":"{SECRET}"}}', "the name itself", True),
        ("number", f'{{"card_number":{SECRET}}}', "a number", True),
        ("escaped-name", f'{{"card\\u005fnumber":"{SECRET}"}}', "an escape in the name", True),
        ("escaped-all", '{"' + "".join(f"\\u{ord(letter):04X}" for letter in "card_number") + f'":"{SECRET}"}}', "escapes in the name", True),
        ("white-space", f' \r\n\t{{ "card_number" \n:\t"{SECRET}" }} \n', "white space", True),
        ("twice", f'{{"card_number":"x","card_number":"{SECRET}"}}', "the name twice", False),
        ("twice-first", f'{{"card_number":"{SECRET}","card_number":"x"}}', "the name twice", False),
        ("twice-nested", f'{{"card":{{"number":"x"}},"card":{{"number":"{SECRET}"}}}}', "the object twice", False),
        ("twice-escaped", f'{{"card_number":"x","card\\u005fnumber":"{SECRET}"}}', "the name twice, once with an escape", False),
        ("list", f'{{"card_number":["{SECRET}"]}}', "a list", False),
        ("object", f'{{"card_number":{{"value":"{SECRET}"}}}}', "an object", False),
        ("object-operator", f'{{"card":{{"number":{{"$ne":"{SECRET}"}}}}}}', "an operator of MongoDB", False),
        ("exponent", '{"card_number":4111111111111111e0}', "an exponent", False),
        ("string-object", f'{{"card":"{{\\"number\\":\\"{SECRET}\\"}}"}}', "JSON in a string", False),
        ("title", f'{{"card":{{"number":"x","Number":"{SECRET}"}}}}', "Go and .NET ignore case; the last one wins", False),
        ("title-alone", f'{{"card":{{"Number":"{SECRET}"}}}}', "Go and .NET ignore case", False),
        ("title-first", f'{{"card":{{"Number":"{SECRET}","number":"x"}}}}', "Go and .NET ignore case", False),
        ("upper", f'{{"CARD":{{"NUMBER":"{SECRET}"}}}}', "Go and .NET ignore case", False),
        ("upper-parent", f'{{"card":{{"number":"x"}},"CARD":{{"number":"{SECRET}"}}}}', "the object in another case", False),
        ("upper-flat", f'{{"CARD_NUMBER":"{SECRET}"}}', "Go and .NET ignore case", False),
        ("upper-flat-both", f'{{"card_number":"x","Card_Number":"{SECRET}"}}', "Go and .NET ignore case", False),
        ("upper-escaped", f'{{"\\u0043ard_number":"{SECRET}"}}', "another case by an escape", False),
        ("long-s", f'{{"\u017fecret_key":"{SECRET}"}}', "Go folds the long s to s", False),
        ("long-s-escaped", f'{{"\\u017fecret_key":"{SECRET}"}}', "the long s by an escape", False),
        ("kelvin", f'{{"secret_\u212aey":"{SECRET}"}}', "Go folds the Kelvin sign to k", False),
        ("kelvin-both", f'{{"secret_key":"x","secret_\u212aey":"{SECRET}"}}', "Go folds the Kelvin sign to k", False),
        ("kelvin-upper", f'{{"\u017fECRET_\\u212aEY":"{SECRET}"}}', "both folds and another case", False),
        ("full-width", f'{{"\uff43ard_number":"{SECRET}"}}', "a full-width letter", False),
        ("null-in-name", f'{{"card_number\\u0000":"{SECRET}"}}', "a null byte in the name", False),
        ("null-in-name-both", f'{{"card_number":"x","card_number\\u0000":"{SECRET}"}}', "a null byte in the name", False),
        ("surrogate", f'{{"card_number":"{SECRET}","a":"\\ud800"}}', "half a surrogate pair", False),
        ("surrogate-in-name", f'{{"card_number\\ud800":"{SECRET}"}}', "half a surrogate pair in the name", False),
        ("prototype", f'{{"__proto__":{{"card_number":"{SECRET}"}}}}', "the prototype of JavaScript", False),
        ("member-dot", f'{{"card.number":"{SECRET}"}}', "a path as a name", False),
        ("member-dot-parent", f'{{"card":{{"holder":"x"}},"card.number":"{SECRET}"}}', "a path as a name, beside its parent", False),
        ("member-dot-both", f'{{"card":{{"number":"x"}},"card.number":"{SECRET}"}}', "a path as a name, beside the value itself", False),
        ("member-dot-escaped", f'{{"card\\u002enumber":"{SECRET}"}}', "a path as a name, with an escape", False),
        ("member-dot-list", f'{{"card[number]":"{SECRET}","card":[]}}', "a path as a name, beside a list", False),
        ("member-date", f'{{"card":{{"number(1i)":"{SECRET}"}}}}', "a part of an attribute, as Rails reads it", False),
        ("member-brackets", f'{{"card[number]":"{SECRET}"}}', "a path as a name", False),
        ("camel", f'{{"cardNumber":"{SECRET}"}}', "camel case", False),
        ("in-list", f'[{{"card_number":"{SECRET}"}}]', "in a list", False),
        ("apostrophes", f"{{'card_number':'{SECRET}'}}", "apostrophes", False),
        ("bare-name", f'{{card_number:"{SECRET}"}}', "a bare name", False),
        ("comma-behind", f'{{"card_number":"{SECRET}",}}', "a comma behind the last member", False),
        ("comment", f'/**/{{"card_number":"{SECRET}"}}', "Ruby accepts comments", False),
        ("comment-inside", f'{{"a":1,/*"*/"card_number":"{SECRET}"/*"*/}}', "Ruby accepts comments", False),
        ("comment-line", f'//x\n{{"card_number":"{SECRET}"}}', "Ruby accepts comments", False),
        ("nan", f'{{"a":NaN,"card_number":"{SECRET}"}}', "Python accepts NaN", False),
        ("infinity", f'{{"a":-Infinity,"card_number":"{SECRET}"}}', "Python accepts Infinity", False),
        ("control", f'{{"a":"\x01","card_number":"{SECRET}"}}', "a control character", False),
        ("byte-order-mark", f"\ufeff{FLAT}", "a byte order mark", True),
        ("garbage-behind", f"{FLAT}x", "Go and Jackson ignore what follows", False),
        ("document-behind", f'{{"a":1}}{FLAT}', "two documents", False),
        ("document-before", f'{FLAT}{{"a":1}}', "two documents", False),
        ("lines", f'{{"a":1}}\n{FLAT}\n', "a document per line", False),
        ("prefix", f")]}}',\n{FLAT}", "the prefix against inclusion", False),
        ("separator", f"\x1e{FLAT}\n", "a record separator", False),
        ("unfinished", FLAT[:-1], "an object that is not closed", False),
        ("null-behind", f"{FLAT}\0", "a null byte behind the document", False),
        ("form-feed", f"\f{FLAT}", "a form feed", False),
        ("form-in-string", f'{{"a":"&card_number={SECRET}&"}}', "a form in a string, for readers that ignore the type", False),
        ("form-string", f'"&card_number={SECRET}&"', "a form as a string, for readers that ignore the type", False),
        ("form-bracket-in-string", f'{{"a":"&[card_number]={SECRET}&"}}', "a form in a string, for readers that ignore the type", False),
    ]:
        body = text.encode("utf-8", "surrogatepass")
        add(topic, name, about, body, JSON, accepted=accepted)
        if not name.startswith("form-"):
            add(topic, f"{name}-at-json", about, body, JSON, target=JSON_ONLY, accepted=accepted)
    add(topic, "not-utf-8", "a byte that is not UTF-8 in a name", b'{"card_number\xff":"' + SECRET.encode() + b'"}', JSON)
    add(topic, "not-utf-8-value", "a byte that is not UTF-8 beside", b'{"a":"\xff","card_number":"' + SECRET.encode() + b'"}', JSON)
    add(topic, "overlong", "an overlong underscore", b'{"card\xc1\x9fnumber":"' + SECRET.encode() + b'"}', JSON)
    for charset in ("utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be", "cp037", "utf-7", "utf-8-sig"):
        for document, which in ((CARD, "nested"), (FLAT, "flat")):
            encoded = document.encode(charset)
            for route, ending in ((ALL, ""), (JSON_ONLY, "-at-json")):
                add("charset", f"{charset}-{which}{ending}", "another charset, named", encoded, f"{JSON}; charset={charset}", target=route)
                add("charset", f"{charset}-{which}-unnamed{ending}", "another charset, not named", encoded, JSON, target=route)
            for kind, type_name in ((FORM, "form"), (MULTIPART, "multipart"), ("text/plain", "text")):
                add("charset", f"{charset}-{which}-{type_name}", "another charset under another type", encoded, kind)
    for name, kind, about in [
        ("upper", "Application/JSON", "another case"),
        ("charset", f"{JSON}; charset=utf-8", "the charset"),
        ("text", "text/json", "an older name"),
        ("merge-patch", "application/merge-patch+json", "a merge patch, which has the shape of the resource"),
        ("words", f"{JSON}; a=\"urlencoded\"; b=\"multipart\"", "words of other types in parameters"),
        ("problem", "application/problem+json; a=b", "a suffix and a parameter"),
    ]:
        add("json-types", name, about, CARD, kind, accepted=True)
        add("json-types", f"{name}-at-json", about, CARD, kind, target=JSON_ONLY, accepted=True)
    for name, kind, about in [
        ("word-json", f'{FORM}; a="json"', "formidable searches for the word"),
        ("word-json-name", f"{FORM}; json=1", "formidable searches for the word"),
        ("word-slash-json", f'{FORM}; a="/json"', "Laravel searches for /json"),
        ("word-plus-json", f'{FORM}; a="+json"', "Laravel searches for +json"),
    ]:
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form")):
            add("types", f"{name}{ending}", about, f"card_number={SECRET}", kind, target=route, accepted=True)
        add("types", f"{name}-nested", about, CARD, kind)
    patches()
    bodies = {
        "nested": CARD,
        "flat": FLAT,
        "blanks": f" \r\n\t {CARD}",
        "behind": f"{FLAT}&a=1",
        "behind-line": f"{FLAT}\r\nx",
        "byte-order-mark": f"\ufeff{FLAT}",
        "comment": f"/*&*/{FLAT}",
        "comment-line": f"//a=1\n{FLAT}",
        "equals": f'{{"a=":"b&c=d","card_number":"{SECRET}"}}',
        "ampersand": f'{{"a":"&","card_number":"{SECRET}","b":"="}}',
        "percent": f'{{"a":"%7B","card_number":"{SECRET}"}}',
        "title": f'{{"card":{{"number":"x","Number":"{SECRET}"}}}}',
        "escaped-name": f'{{"card\\u005fnumber":"{SECRET}"}}',
        "nan": f'{{"a":NaN,"card_number":"{SECRET}"}}',
        "unfinished": FLAT[:-1],
        "second": f'{{"a":1}}{FLAT}',
        "list": f"[{FLAT}]",
        "null-first": f"\0{FLAT}",
        "form-feed": f"\f{FLAT}",
        "no-break-space": f"\u00a0{FLAT}",
    }
    for name, kind, about in [
        ("form", FORM, "the type of a form"),
        ("form-charset", f"{FORM}; charset=utf-8", "the type of a form with a charset"),
        ("form-upper", FORM.upper(), "the type of a form in upper case"),
        ("multipart", MULTIPART, "the type of a multipart form"),
        ("multipart-none", "multipart/form-data", "the type of a multipart form without a boundary"),
        ("plain", "text/plain", "the type of a text"),
        ("none", None, "no type"),
        ("empty", "", "an empty type"),
        ("any", "*/*", "a pattern"),
        ("octets", "application/octet-stream", "the type of bytes"),
        ("javascript", "application/javascript", "the type of a script"),
        ("x-json", "application/x-json", "a type like JSON's"),
        ("json-sequence", "application/json-seq", "a type like JSON's"),
        ("ndjson", "application/x-ndjson", "a type like JSON's"),
        ("json5", "application/json5", "a type like JSON's"),
        ("suffix-middle", "application/x+json+xml", "a suffix in the middle"),
        ("report", "application/csp-report", "the type of a report, which is JSON"),
        ("reports", "application/reports+json-patch", "a type with another suffix"),
        ("two", f"{JSON}, text/plain", "two types"),
        ("two-reversed", f"text/plain, {JSON}", "two types"),
        ("two-form", f"{FORM}, {JSON}", "two types that rules read"),
        ("blank", "application / json", "white space in the type"),
        ("comma", "application/json,", "a comma"),
        ("space", "application/json x", "text behind the type"),
        ("longer", "application/jsonx", "a type that begins like JSON's"),
        ("sms", "image/png", "an image"),
        ("xml", "application/xml", "XML"),
        ("grpc", "application/grpc+json", "a suffix"),
        ("suffix", "application/vnd.api+json", "a type whose documents have another model"),
    ]:
        many = name in ("form", "multipart")
        for which, body in bodies.items():
            if many or which in ("nested", "flat"):
                add("json-types", f"{name}-{which}", about, body, kind)
                if name not in ("two-form",):
                    add("json-types", f"{name}-{which}-at-json", about, body, kind, target=JSON_ONLY)
    add("json-types", "twice", "the field twice", CARD, "text/plain", ("Content-Type", JSON))
    add("json-types", "twice-form", "the field twice", CARD, FORM, ("Content-Type", JSON))
    add("json-types", "twice-form-reversed", "the field twice", CARD, JSON, ("Content-Type", FORM))
    for method in ("GET", "PUT", "PATCH", "DELETE", "QUERY"):
        add("json-types", f"method-{method}", "another method", CARD, JSON, method=method)
