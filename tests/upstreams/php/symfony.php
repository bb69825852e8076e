<?php
// The upstream `symfony`: what Symfony's Request reads under the selected names, also by Laravel's rule for JSON.
// Started as `php -S ADDRESS symfony.php`.

require 'Symfony/Component/HttpFoundation/autoload.php';

use Symfony\Component\HttpFoundation\Request;

define('ROUTES', explode(' ', getenv('ROUTES')));

/** The card of a decoded document. */
function card(array $document): array
{
    $number = is_array($document['card'] ?? null) ? ($document['card']['number'] ?? null) : null;
    return [$document['card_number'] ?? null, $number, $document['secret_key'] ?? null];
}

/** The value of a reader, or null where Symfony refuses the request. */
function attempt(callable $read): mixed
{
    try {
        return $read();
    } catch (Throwable) {
        return null;
    }
}

/** Latin-1 for what is not UTF-8, so that any bytes can be reported. */
function text(mixed $value): mixed
{
    if (is_array($value)) {
        return array_map('text', $value);
    }
    return is_string($value) && !preg_match('//u', $value) ? iconv('ISO-8859-1', 'UTF-8', $value) : $value;
}

$request = Request::createFromGlobals();
$document = attempt(fn () => $request->toArray());
// Laravel: Request::isJson searches the header for a word, and `input()` then reads the document as it would read the form.
$type = (string) $request->headers->get('Content-Type');
$isLaravelJson = str_contains($type, '/json') || str_contains($type, '+json');
$input = $isLaravelJson ? ($document ?? []) : $request->request->all();
$read = [
    'form request' => attempt(fn () => $request->request->all()['card_number'] ?? null),
    'form input by Laravel' => $input['card_number'] ?? null,
    'query query' => attempt(fn () => $request->query->all()['card_number'] ?? null),
    'params get' => attempt(fn () => $request->get('card_number')),
    'json toArray' => card($document ?? []),
    'json field' => card((array) json_decode(attempt(fn () => (string) $request->request->get('payload')) ?? '', true)),
    'header headers' => $request->headers->all('X-Card-Number'),
];
$path = rtrim(rawurldecode($request->getPathInfo()), '/');
header('Content-Type: application/json');
header('X-Upstream: symfony');
echo json_encode(['route' => in_array($path, ROUTES, true) ? $path : null, 'read' => (object) text($read)]);
