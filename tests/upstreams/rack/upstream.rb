# The upstream `rack`: what Rack and Sinatra read under the selected names, on Puma.
# Prints one line, the port by name, and serves until it is terminated.
require 'json'
require 'puma'
require 'puma/server'
require 'sinatra/base'

ROUTES = ENV.fetch('ROUTES').split.freeze

# Files as their content, everything as text that JSON can carry.
def plain(value)
  case value
  when Hash
    return plain(value[:tempfile].read) if value[:tempfile]
    value.transform_values { |member| plain(member) }
  when Array then value.map { |member| plain(member) }
  when String
    text = value.dup.force_encoding(Encoding::UTF_8)
    text.valid_encoding? ? text : value.dup.force_encoding(Encoding::ISO_8859_1).encode(Encoding::UTF_8)
  else value
  end
end

def attempt
  yield
rescue StandardError
  nil
end

def card(document)
  return [] unless document.is_a?(Hash)

  inner = document['card']
  [document['card_number'], inner.is_a?(Hash) ? inner['number'] : nil, document['secret_key']]
end

class Upstream < Sinatra::Base
  disable :protection, :show_exceptions, :raise_errors, :logging

  ROUTES.each do |route|
    %i[get post put patch delete].each do |method|
      send(method, route) do
        env['rack.input'].rewind
        body = env['rack.input'].read
        env['rack.input'].rewind
        read = {
          'form POST' => attempt { plain(request.POST['card_number']) },
          'query GET' => attempt { plain(request.GET['card_number']) },
          'params params' => attempt { plain(params['card_number']) },
          'header env' => plain(env['HTTP_X_CARD_NUMBER']),
          'json JSON.parse' => attempt { plain(card(JSON.parse(body))) },
          'json field' => attempt { plain(card(JSON.parse(request.POST['payload']))) }
        }
        headers 'Content-Type' => 'application/json', 'X-Upstream' => 'rack'
        JSON.generate('route' => route, 'read' => read)
      end
    end
  end
end

server = Puma::Server.new(Upstream, Puma::Events.null)
port = server.add_tcp_listener('127.0.0.1', 0).addr[1]
server.run
puts JSON.generate('rack' => port)
$stdout.flush
sleep
