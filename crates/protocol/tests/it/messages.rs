//! Messages and their content: what is accepted, and what is refused with which words. Frames are written by `rmpv`.

use std::time::Duration;

use leafseal_protocol::{
    ContentError, DecryptDocumentParams, DecryptFileParams, DecryptParams, DocumentResult, EncryptDocumentParams,
    EncryptFileParams, EncryptParams, ErrorCode, ErrorObject, FieldInfo, FieldKind, FrameError, FrameLimits,
    GOING_AWAY, GoingAway, Health, HealthParams, InfoParams, InspectParams, Interface, Message, MessageFault, Method,
    OptionKind, OptionValue, Query, RawParams, RawValue, Retry, RewrapParams, UnscannedError, ValuesResult, answer,
    connection_error, decode_cancel, request,
};
use rmpv::Value;

fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).expect("a Vec takes everything");
    bytes
}

fn array(values: &[Value]) -> Value {
    Value::Array(values.to_vec())
}

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(name, value)| (Value::from(*name), value.clone())).collect())
}

fn request_frame(method: &str, params: Value) -> Vec<u8> {
    encode(&array(&[Value::from(0), Value::from(1), Value::from(method), params]))
}

fn request_params(frame: &[u8]) -> RawParams<'_> {
    match Message::parse_unscanned(frame, FrameLimits::default()) {
        Ok(Message::Request { params, .. }) => params,
        other => panic!("not a request: {other:?}"),
    }
}

/// Decodes parameters with the method's own reader; only whether and why it fails matters here.
fn decode(method: Method, params: RawParams<'_>) -> Result<(), ContentError> {
    match method {
        Method::Encrypt => EncryptParams::decode(params).map(drop),
        Method::Decrypt => DecryptParams::decode(params).map(drop),
        Method::EncryptDocument => EncryptDocumentParams::decode(params).map(drop),
        Method::DecryptDocument => DecryptDocumentParams::decode(params).map(drop),
        Method::EncryptFile => EncryptFileParams::decode(params).map(drop),
        Method::DecryptFile => DecryptFileParams::decode(params).map(drop),
        Method::Rewrap => RewrapParams::decode(params).map(drop),
        Method::Inspect => InspectParams::decode(params).map(drop),
        query => Query::decode(query, params).map(|query| assert!(query.is_some(), "a query")),
    }
}

fn decode_map(method: Method, entries: &[(&str, Value)]) -> Result<(), String> {
    let frame = request_frame(method.as_str(), array(&[map(entries)]));
    decode(method, request_params(&frame)).map_err(|error| error.to_string())
}

type Fields = Vec<(&'static str, Value)>;

/// A value in the range of a field.
fn sample(info: &FieldInfo) -> Value {
    match info.kind {
        FieldKind::Text => Value::from("00ff"),
        FieldKind::Word(list) => Value::from(list.words[0].0),
        FieldKind::Flag => Value::from(true),
        FieldKind::Number => Value::from(7),
        FieldKind::Bytes => Value::Binary(vec![1, 2]),
        FieldKind::Texts => array(&[Value::from("card")]),
    }
}

/// Every field that a method takes, with a good value; required ones first.
fn fields_of(method: Method) -> (Fields, Fields) {
    let app = ("app", Value::from("acme"));
    let values = ("values", array(&[Value::from("ev:")]));
    let document = ("document", Value::from("{}"));
    let data = ("data", Value::Binary(vec![1, 2]));
    let curve = ("curve", Value::from("k1"));
    let keying = ("keying", Value::from("session"));
    let role = ("role", Value::from("card"));
    let deadline = ("deadline_ms", Value::from(500));
    let select = ("select", array(&[Value::from("$.a")]));
    match method {
        Method::Encrypt => (vec![app, values], vec![curve, keying, role, deadline]),
        Method::Decrypt => (vec![app, values], vec![role, deadline]),
        Method::EncryptDocument => (vec![app, document], vec![curve, keying, role, deadline, select]),
        Method::DecryptDocument => (vec![app, document], vec![role, deadline, select]),
        Method::EncryptFile => (vec![app, data], vec![curve, deadline]),
        Method::DecryptFile => (vec![app, data], vec![deadline]),
        Method::Rewrap => (vec![app, values], vec![curve, deadline, ("on_failure", Value::from("leave"))]),
        Method::Inspect => (vec![values], vec![app]),
        query => {
            let query = Query::ALL.iter().find(|info| info.method == query.as_str()).expect("a query");
            let (required, optional) = query.params.fields.iter().partition::<Vec<_>, _>(|info| !info.is_optional);
            let named =
                |fields: Vec<&FieldInfo>| fields.into_iter().map(|info| (info.field.as_str(), sample(info))).collect();
            (named(required), named(optional))
        }
    }
}

#[test]
fn each_method_takes_its_fields_in_any_order_and_no_others() {
    let every_field: Vec<_> = {
        let (mut fields, optional) = fields_of(Method::EncryptDocument);
        fields.extend(optional);
        fields.extend(fields_of(Method::EncryptFile).0);
        fields.extend(fields_of(Method::Encrypt).0);
        fields
    };
    for method in Method::ALL.iter().copied() {
        let (required, optional) = fields_of(method);
        let mut all = [required.clone(), optional.clone()].concat();
        for _ in 0..all.len() {
            all.rotate_left(1);
            assert_eq!(decode_map(method, &all), Ok(()), "{method:?}");
        }
        assert_eq!(decode_map(method, &required), Ok(()), "{method:?} without options");
        let nil: Vec<_> = optional.iter().map(|(name, _)| (*name, Value::Nil)).collect();
        assert_eq!(decode_map(method, &[required.clone(), nil].concat()), Ok(()), "{method:?} with options nil");
        for (name, value) in &every_field {
            let more = [required.clone(), vec![(*name, value.clone())]].concat();
            if !all.iter().any(|(known, _)| known == name) {
                assert_eq!(decode_map(method, &more), Err(format!("unknown field `{name}`")), "{method:?}");
            }
        }
    }
}

#[test]
fn missing_and_double_fields_are_named() {
    for method in Method::ALL.iter().copied() {
        let (required, optional) = fields_of(method);
        for at in 0..required.len() {
            let mut fewer = required.clone();
            let (name, _) = fewer.remove(at);
            assert_eq!(decode_map(method, &fewer), Err(format!("field `{name}` is missing")), "{method:?}");
            fewer.push((name, Value::Nil));
            assert!(decode_map(method, &fewer).is_err(), "{method:?}: nil is no {name}");
        }
        for double in required.iter().chain(&optional) {
            let more = [required.clone(), optional.clone(), vec![double.clone()]].concat();
            let expected = format!("duplicate field `{}`", double.0);
            assert_eq!(decode_map(method, &more), Err(expected), "{method:?}");
        }
    }
}

#[test]
fn fields_of_the_wrong_type_or_range_are_named() {
    let long_app = "a".repeat(129);
    let rows: &[(Method, &str, Value, &str)] = &[
        (Method::Encrypt, "app", Value::from(1), "field `app`: expected a string, found an integer"),
        (Method::Encrypt, "app", Value::from(""), "field `app`: expected 1 to 128 bytes"),
        (Method::Encrypt, "app", Value::from(long_app.as_str()), "field `app`: expected 1 to 128 bytes"),
        (Method::Encrypt, "curve", Value::from("p256"), "field `curve`: expected `r1` or `k1`"),
        (Method::Encrypt, "curve", Value::from(true), "field `curve`: expected a string, found a boolean"),
        (Method::Encrypt, "keying", Value::from(""), "field `keying`: expected `field`, `request` or `session`"),
        (Method::Encrypt, "role", Value::from(""), "field `role`: expected 1 to 20 characters of a-z, 0-9 and -"),
        (Method::Encrypt, "role", Value::from("Card"), "field `role`: expected 1 to 20 characters of a-z, 0-9 and -"),
        (Method::Rewrap, "on_failure", Value::from("null"), "field `on_failure`: expected `fail` or `leave`"),
        (
            Method::Decrypt,
            "role",
            Value::from("a".repeat(21)),
            "field `role`: expected 1 to 20 characters of a-z, 0-9 and -",
        ),
        (Method::Decrypt, "deadline_ms", Value::from(0), "field `deadline_ms`: expected 1 to 4294967295"),
        (Method::Decrypt, "deadline_ms", Value::from(1u64 << 32), "field `deadline_ms`: expected 1 to 4294967295"),
        (Method::Decrypt, "deadline_ms", Value::from(-1), "field `deadline_ms`: expected an unsigned integer"),
        (
            Method::Decrypt,
            "deadline_ms",
            Value::from(1.5),
            "field `deadline_ms`: expected an unsigned integer, found a float",
        ),
        (Method::Rewrap, "values", map(&[]), "field `values`: expected an array, found a map"),
        (Method::Inspect, "values", Value::Nil, "field `values`: expected an array, found nil"),
        (Method::EncryptDocument, "select", Value::from("$"), "field `select`: expected an array, found a string"),
        (Method::DecryptDocument, "select", array(&[]), "field `select`: expected at least one selector"),
        (Method::EncryptDocument, "document", map(&[]), "field `document`: expected a binary or a string, found a map"),
        (Method::EncryptFile, "data", Value::from("x"), "field `data`: expected a binary, found a string"),
        (Method::EncryptFile, "data", Value::Ext(1, vec![0]), "field `data`: expected a binary, found an extension"),
    ];
    for (method, name, value, expected) in rows {
        let (required, optional) = fields_of(*method);
        let fields: Vec<_> = [required, optional]
            .concat()
            .into_iter()
            .map(|(field, good)| (field, if field == *name { value.clone() } else { good }))
            .collect();
        assert_eq!(decode_map(*method, &fields), Err(expected.to_string()));
    }
}

#[test]
fn largest_and_smallest_options_are_accepted() {
    for (name, value) in [
        ("app", Value::from("a".repeat(128))),
        ("role", Value::from("a".repeat(20))),
        ("role", Value::from("-")),
        ("deadline_ms", Value::from(u32::MAX)),
        ("deadline_ms", Value::from(1)),
    ] {
        let mut fields = fields_of(Method::Encrypt).0;
        fields.retain(|(field, _)| *field != name);
        fields.push((name, value));
        assert_eq!(decode_map(Method::Encrypt, &fields), Ok(()));
    }
}

#[test]
fn params_are_exactly_one_map_by_name() {
    let one_map = "params must be an array of exactly one map of fields by name";
    for params in [array(&[]), array(&[Value::Nil]), array(&[array(&[])]), array(&[map(&[]), map(&[])])] {
        let frame = request_frame("encrypt", params);
        let error = EncryptParams::decode(request_params(&frame)).map(drop).expect_err("not one map");
        assert_eq!(error.to_string(), one_map);
    }
    let keyed_by_number = Value::Map(vec![(Value::from(1), Value::Nil)]);
    let frame = request_frame("encrypt", array(&[keyed_by_number]));
    let error = EncryptParams::decode(request_params(&frame)).map(drop).expect_err("no name");
    assert_eq!(error.to_string(), "field names must be strings, not an integer");
    let frame = request_frame("health", array(&[]));
    assert_eq!(HealthParams::decode(request_params(&frame)), Ok(HealthParams {}), "no fields, no map needed");
    let frame = request_frame("info", array(&[map(&[]), map(&[])]));
    assert!(InfoParams::decode(request_params(&frame)).is_err());
}

#[test]
fn names_that_may_be_data_are_not_shown() {
    let hidden = " (its name is not shown, for it does not look like one)";
    for name in ["4242424242424242", "", "Anna Müller", &"a".repeat(33)] {
        let error = decode_map(Method::Health, &[(name, Value::Nil)]).expect_err("unknown");
        assert_eq!(error, format!("unknown field{hidden}"));
        let error = Method::require(name).expect_err("unknown");
        assert_eq!((error.code, error.message), (ErrorCode::UnknownMethod, format!("unknown method{hidden}")));
    }
    assert_eq!(Method::require("encript").expect_err("unknown").message, "unknown method `encript`");
    let invalid = Value::String(rmpv::Utf8String::from("x"));
    let mut frame = request_frame("health", array(&[Value::Map(vec![(invalid, Value::Nil)])]));
    let at = frame.len() - 2;
    frame[at] = 0xff;
    let error = HealthParams::decode(request_params(&frame)).expect_err("not UTF-8");
    assert_eq!(error.to_string(), format!("unknown field{hidden}"));
}

#[test]
fn every_request_reads_as_it_was_written() {
    for method in Method::ALL {
        assert_eq!(Method::parse(method.as_str()), Some(*method));
        assert_eq!(Method::require(method.as_str()), Ok(*method));
    }
    let mut options = leafseal_protocol::EncryptOptions::new("acme");
    for option in leafseal_protocol::EncryptOptions::OPTIONS {
        let value = match option.kind {
            OptionKind::Text => OptionValue::Text("card"),
            OptionKind::Word(list) | OptionKind::Words(list) => OptionValue::Text(list.words[0].0),
            OptionKind::Flag => OptionValue::Flag(true),
            OptionKind::Number => OptionValue::Number(500),
        };
        assert!(options.set(option.field, value), "{option:?}");
    }
    let mut out = Vec::new();
    request::encrypt_document(u32::MAX, &options, Some(&["$.a", "$..b"]), b"{\"a\":1}", &mut out);
    let Ok(Message::Request { id: u32::MAX, method: "encrypt_document", params }) = Message::parse(&out) else {
        panic!("a request");
    };
    let params = EncryptDocumentParams::decode(params).expect("good");
    assert_eq!((params.options, params.document), (options, &b"{\"a\":1}"[..]));
    let select: Vec<_> = params.select.expect("selectors").strings().map(|s| s.expect("a string").as_str()).collect();
    assert_eq!(select, ["$.a", "$..b"]);
}

fn fault(message: Value) -> (Option<u32>, MessageFault) {
    let frame = encode(&message);
    match Message::parse_unscanned(&frame, FrameLimits::default()) {
        Err(UnscannedError::Message(error)) => (error.id, error.fault),
        other => panic!("{message}: {other:?}"),
    }
}

#[test]
fn malformed_messages_are_refused() {
    use leafseal_protocol::WireType;
    let [id, method, params] = [Value::from(5), Value::from("health"), array(&[])];
    let request = |id: Value| array(&[Value::from(0), id, method.clone(), params.clone()]);
    let rows = [
        (Value::from(71), None, MessageFault::NotAnArray(WireType::Integer)),
        (map(&[]), None, MessageFault::NotAnArray(WireType::Map)),
        (array(&[]), None, MessageFault::UnknownType),
        (array(&[Value::from(3), id.clone(), method.clone(), params.clone()]), None, MessageFault::UnknownType),
        (array(&[Value::from(-1), id.clone(), method.clone(), params.clone()]), None, MessageFault::UnknownType),
        (array(&[Value::from("0")]), None, MessageFault::UnknownType),
        (array(&[Value::from(0)]), None, MessageFault::WrongLength { expected: 4, found: 1 }),
        (request(Value::from(-1)), None, MessageFault::InvalidId),
        (request(Value::from(1u64 << 32)), None, MessageFault::InvalidId),
        (request(Value::from(1.0)), None, MessageFault::InvalidId),
        (request(Value::Nil), None, MessageFault::InvalidId),
        (
            array(&[Value::from(0), id.clone(), method.clone()]),
            Some(5),
            MessageFault::WrongLength { expected: 4, found: 3 },
        ),
        (
            array(&[Value::from(0), id.clone(), method.clone(), params.clone(), Value::Nil]),
            Some(5),
            MessageFault::WrongLength { expected: 4, found: 5 },
        ),
        (array(&[Value::from(0), id.clone(), Value::from(1), params.clone()]), Some(5), MessageFault::InvalidMethod),
        (
            array(&[Value::from(0), id.clone(), method.clone(), map(&[])]),
            Some(5),
            MessageFault::ParamsNotAnArray(WireType::Map),
        ),
        (array(&[Value::from(1), id, Value::Nil]), None, MessageFault::WrongLength { expected: 4, found: 3 }),
        (
            array(&[Value::from(2), method.clone(), params.clone(), Value::Nil]),
            None,
            MessageFault::WrongLength { expected: 3, found: 4 },
        ),
        (array(&[Value::from(2), Value::Nil, params]), None, MessageFault::InvalidMethod),
        (array(&[Value::from(2), method, Value::Nil]), None, MessageFault::ParamsNotAnArray(WireType::Nil)),
    ];
    for (message, expected_id, expected) in rows {
        assert_eq!(fault(message.clone()), (expected_id, expected), "{message}");
    }
}

#[test]
fn a_message_in_long_formats_is_the_same_message() {
    // array 32, uint 64, uint 16, str 32, array 16
    let frame =
        [&[0xdd, 0, 0, 0, 4, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0, 0xcd, 0, 9, 0xdb, 0, 0, 0, 6][..], b"health", &[0xdc, 0, 0]]
            .concat();
    let parsed = Message::parse_unscanned(&frame, FrameLimits::default());
    assert!(matches!(parsed, Ok(Message::Request { id: 9, method: "health", .. })), "{parsed:?}");
}

#[test]
fn bytes_that_are_not_one_frame_are_refused() {
    let mut frame = request_frame("health", array(&[]));
    let malformed = |bytes: &[u8]| match Message::parse_unscanned(bytes, FrameLimits::default()) {
        Err(UnscannedError::Message(error)) => error.fault == MessageFault::Malformed,
        _ => false,
    };
    for end in 0..frame.len() {
        assert!(malformed(&frame[..end]), "cut at {end}");
    }
    frame.push(0xc0);
    assert!(malformed(&frame), "a byte too many");
    let reserved = Message::parse_unscanned(&[0x94, 0xc1], FrameLimits::default()).expect_err("0xc1");
    assert_eq!(reserved, UnscannedError::Frame(FrameError::ReservedMarker { offset: 1 }));
}

fn response(frame: &[u8]) -> (u32, Result<RawValue<'_>, RawValue<'_>>) {
    match Message::parse_unscanned(frame, FrameLimits::default()) {
        Ok(Message::Response { id, result }) => (id, result),
        other => panic!("not a response: {other:?}"),
    }
}

#[test]
fn errors_travel_whole() {
    for code in ErrorCode::of(Interface::Rpc) {
        assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
        let sent = ErrorObject::new(code, "some words").at_index(1999).at_offset(70_000);
        let sent = sent.retry_after(Duration::from_micros(1_500_001));
        let mut out = Vec::new();
        answer::error(77, &sent, &mut out);
        let (77, Err(received)) = response(&out) else { panic!("an error for 77") };
        let received = received.error().expect("an error object");
        assert_eq!((received.known_code(), received.message), (Some(code), "some words"));
        assert_eq!((received.retry, received.index, received.offset), (code.retry(), Some(1999), Some(70_000)));
        assert_eq!(received.retry_after_ms, Some(1501));
    }
    for &retry in Retry::ALL {
        assert_eq!(Retry::parse(retry.as_str()), Some(retry));
    }
}

#[test]
fn errors_of_a_newer_engine_are_understood_as_far_as_they_go() {
    let object = map(&[("code", Value::from("out_of_ink")), ("retry", Value::from("tomorrow")), ("colour", map(&[]))]);
    let frame = encode(&array(&[Value::from(1), Value::from(1), object, Value::Nil]));
    let (1, Err(error)) = response(&frame) else { panic!("an error") };
    let error = error.error().expect("an error object");
    assert_eq!((error.code, error.known_code(), error.retry, error.index), ("out_of_ink", None, Retry::Never, None));

    for (object, expected) in [
        (Value::from("oops"), "expected a map, found a string"),
        (map(&[("message", Value::from("oops"))]), "field `code` is missing"),
        (map(&[("code", Value::from(7))]), "field `code`: expected a string, found an integer"),
    ] {
        let frame = encode(&array(&[Value::from(1), Value::from(1), object, Value::Nil]));
        let (1, Err(error)) = response(&frame) else { panic!("an error") };
        assert_eq!(error.error().expect_err("no error object").to_string(), expected);
    }
}

#[test]
fn content_errors_become_invalid_params_with_the_index() {
    let frame = request_frame("encrypt", array(&[map(&[("app", Value::from("a")), ("values", array(&[array(&[])]))])]));
    let params = EncryptParams::decode(request_params(&frame)).expect("good as far as seen");
    let error = params.values.iter().next().expect("one").expect_err("nested");
    let object = ErrorObject::from(error);
    assert_eq!((object.code, object.index), (ErrorCode::InvalidParams, Some(0)));
    assert!(object.message.starts_with("field `values`, index 0: expected nil, a boolean"), "{}", object.message);
}

#[test]
fn notifications_travel_whole() {
    let mut out = Vec::new();
    request::cancel(u32::MAX, &mut out);
    let Ok(Message::Notification { method: "cancel", params }) = Message::parse(&out) else { panic!("cancel") };
    assert_eq!(decode_cancel(params), Ok(u32::MAX));

    for params in
        [array(&[]), array(&[Value::from(-1)]), array(&[Value::from(1u64 << 32)]), array(&[1.into(), 2.into()])]
    {
        let frame = encode(&array(&[Value::from(2), Value::from("cancel"), params]));
        let Ok(Message::Notification { params, .. }) = Message::parse(&frame) else { panic!("cancel") };
        assert!(decode_cancel(params).is_err());
    }

    let sent = ErrorObject::from(FrameError::TooDeep { offset: 9, limit: 32 });
    let mut out = Vec::new();
    answer::connection_error(&sent, &mut out);
    let Ok(Message::Notification { method: "connection_error", params }) = Message::parse(&out) else {
        panic!("error")
    };
    let received = connection_error(params).expect("an error object");
    assert_eq!((received.known_code(), received.message), (Some(ErrorCode::InvalidFrame), sent.message.as_str()));

    for &reason in GoingAway::ALL {
        let mut out = Vec::new();
        answer::going_away(reason, &mut out);
        let Ok(Message::Notification { method: GOING_AWAY, params }) = Message::parse(&out) else {
            panic!("{reason:?}")
        };
        assert_eq!(GoingAway::decode(params), reason);
    }
}

/// A newer engine may give other reasons and further elements.
#[test]
fn a_reason_for_going_away_that_is_not_known_promises_the_least() {
    for (params, expected) in [
        (array(&[]), GoingAway::Age),
        (array(&["maintenance".into()]), GoingAway::Age),
        (array(&[1.into(), "closed".into()]), GoingAway::Age),
        (array(&[map(&[("reason", "closed".into())])]), GoingAway::Age),
        (array(&["closed".into(), map(&[("x", 1.into())])]), GoingAway::Closed),
    ] {
        let frame = encode(&array(&[Value::from(2), Value::from(GOING_AWAY), params]));
        let Ok(Message::Notification { params, .. }) = Message::parse(&frame) else { panic!("a notification") };
        assert_eq!(GoingAway::decode(params), expected, "{frame:02x?}");
    }
}

#[test]
fn results_of_a_newer_engine_are_understood() {
    let result =
        map(&[("colour", map(&[("x", array(&[Value::Nil]))])), ("values", array(&[true.into()])), ("z", 1.into())]);
    let frame = encode(&array(&[Value::from(1), Value::from(4), Value::Nil, result]));
    let (4, Ok(result)) = response(&frame) else { panic!("a result") };
    let values = ValuesResult::decode(result).expect("a list").values;
    assert_eq!(values.iter().collect::<Vec<_>>(), [Ok(leafseal_protocol::Scalar::Bool(true))]);
    assert_eq!(Health::decode(result).expect_err("no status").to_string(), "field `status` is missing");
}

#[test]
fn a_document_in_several_buffers_is_the_same_message() {
    let pieces: [&[u8]; 3] = [b"{\"a\":", &[b'1'; 300], b"}"];
    let mut whole = Vec::new();
    let open = answer::OpenDocument::begin(7, &mut whole);
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    open.finish(70_000, &mut whole);
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let open = answer::OpenDocument::begin(7, &mut head);
    head.extend_from_slice(pieces[0]);
    let end = head.len() + pieces[1].len() + pieces[2].len();
    open.finish_at(end, 70_000, &mut head, &mut tail);
    assert_eq!([&head, pieces[1], pieces[2], &tail].concat(), whole);
}

/// A client without support for reports reads the same result, and one with it finds the values that are not zero.
#[test]
fn results_carry_a_report_after_the_requested_values() {
    let paths = ["$['a']", "$['b'][3]"];
    let report = answer::AnswerReport {
        matched: &[2, 0],
        resealed: 3,
        skipped: 1,
        rewrapped: 6,
        symmetric: 5,
        failed: Some(20),
        failures: answer::Failures::Paths(&paths),
    };
    let (mut whole, mut head, mut tail) = (Vec::new(), Vec::new(), Vec::new());
    let open = answer::OpenDocument::begin(7, &mut whole);
    whole.extend_from_slice(b"{\"a\":1}");
    open.finish_with(1, &report, &mut whole);
    let open = answer::OpenDocument::begin(7, &mut head);
    head.extend_from_slice(b"{\"a\"");
    let end = head.len() + 3;
    open.finish_at_with(end, 1, &report, &mut head, &mut tail);
    assert_eq!([head.as_slice(), b":1}", &tail].concat(), whole);
    let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(&whole) else { panic!("a response") };
    let DocumentResult { document, count, report } = DocumentResult::decode(result).expect("a document");
    assert_eq!((document, count), (&b"{\"a\":1}"[..], 1));
    assert_eq!((report.resealed, report.skipped, report.rewrapped), (3, 1, 6));
    assert_eq!((report.symmetric, report.failed), (5, Some(20)));
    assert_eq!((report.matched(), report.failure_paths()), (Ok(vec![2, 0]), Ok(paths.to_vec())));

    let mut list = Vec::new();
    let open = answer::OpenValues::begin(7, 1, &mut list);
    leafseal_protocol::write::string("ev:x:$", &mut list);
    let failures = answer::Failures::Indexes(&[0]);
    open.finish(&answer::AnswerReport { failed: Some(1), failures, ..answer::AnswerReport::default() }, &mut list);
    let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(&list) else { panic!("a response") };
    let read = ValuesResult::decode(result).expect("values");
    assert_eq!((read.values.count(), read.report.failed, read.report.failure_indexes()), (1, Some(1), Ok(vec![0])));

    let (mut plain, mut same) = (Vec::new(), Vec::new());
    answer::begin_values(7, 0, &mut plain);
    answer::OpenValues::begin(7, 0, &mut same).finish(&answer::AnswerReport::default(), &mut same);
    assert_eq!(same, plain, "nothing to report takes no byte");
}
