<?php
// The upstream `php`: what PHP's own request parsing reads under the selected names. Started as `php -S ADDRESS upstream.php`.

define('ROUTES', explode(' ', getenv('ROUTES')));

/** The route, as a front controller computes it from the target, or as the server itself resolves the path. */
function route(): ?string
{
    $target = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
    $candidates = [rtrim(rawurldecode((string) $target), '/'), rtrim($_SERVER['SCRIPT_NAME'], '/'), rtrim($_SERVER['PHP_SELF'], '/')];
    foreach ($candidates as $path) {
        if (in_array($path, ROUTES, true)) {
            return $path;
        }
    }
    return null;
}

/** The content of every uploaded file of the field; PHP nests arrays where the name has brackets. */
function files(): mixed
{
    $paths = $_FILES['card_number']['tmp_name'] ?? null;
    if ($paths === null) {
        return null;
    }
    $paths = is_array($paths) ? $paths : [$paths];
    $contents = [];
    array_walk_recursive($paths, function ($path) use (&$contents) {
        $contents[] = $path === '' ? '' : file_get_contents($path);
    });
    return $contents;
}

/** The card of a decoded document. */
function card(mixed $document): array
{
    if (!is_array($document)) {
        return [];
    }
    $number = is_array($document['card'] ?? null) ? ($document['card']['number'] ?? null) : null;
    return [$document['card_number'] ?? null, $number, $document['secret_key'] ?? null];
}

/** Latin-1 for what is not UTF-8, so that any bytes can be reported. */
function text(mixed $value): mixed
{
    if (is_array($value)) {
        return array_map('text', $value);
    }
    return is_string($value) && !preg_match('//u', $value) ? iconv('ISO-8859-1', 'UTF-8', $value) : $value;
}

$body = file_get_contents('php://input');
parse_str($body, $parsed);
$read = [
    'form $_POST' => $_POST['card_number'] ?? null,
    'form $_FILES' => files(),
    'form parse_str' => $parsed['card_number'] ?? null,
    'json json_decode' => card(json_decode($body, true)),
    'json field' => card(json_decode(is_string($_POST['payload'] ?? null) ? $_POST['payload'] : '', true)),
    'query $_GET' => $_GET['card_number'] ?? null,
    'params $_REQUEST' => $_REQUEST['card_number'] ?? null,
    'header $_SERVER' => $_SERVER['HTTP_X_CARD_NUMBER'] ?? null,
    'header getallheaders' => array_change_key_case(getallheaders())['x-card-number'] ?? null,
];
header('Content-Type: application/json');
header('X-Upstream: php');
echo json_encode(['route' => route(), 'read' => (object) text($read)]);
