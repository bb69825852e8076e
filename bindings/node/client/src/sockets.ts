// Delays `destroy` of a connection until a response that the handler has sent, and that is still being processed, was written.
//
// Without a rule, the response would have been written before whatever destroys the connection, such as Express after an error. Ends of the
// connection that its peer or an error causes are not delayed.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Delay {
  responses: number;
  isPending: boolean;
}

const delays = new WeakMap<Socket, Delay>();

/** Delays `destroy` of the connection until the response has finished, or was closed. */
export function delayDestroy(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  // Over HTTP/2 the socket belongs to all streams; tools that inject requests have none.
  if (request.httpVersionMajor >= 2 || typeof (socket as Partial<Socket> | null)?.destroy !== 'function') return;
  const delay = delays.get(socket) ?? install(socket);
  delay.responses += 1;
  let isOver = false;
  const resume = (): void => {
    if (isOver) return;
    isOver = true;
    delay.responses -= 1;
    if (delay.isPending && delay.responses === 0) socket.destroy();
  };
  response.once('finish', resume).once('close', resume);
}

function install(socket: Socket): Delay {
  const delay: Delay = { responses: 0, isPending: false };
  delays.set(socket, delay);
  const destroy = socket.destroy.bind(socket);
  socket.destroy = (error?: Error): Socket => {
    if (error || delay.responses === 0 || socket.readableEnded || socket.writableEnded) return destroy(error);
    delay.isPending = true;
    return socket;
  };
  return delay;
}
