import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** A server that understands just enough of its protocol to answer, to hold, and to hang up. */
export interface ScriptedServer extends AsyncDisposable {
  readonly endpoint: { readonly address: string; readonly port: number };
  /** Whether it has got a request that it does not answer. */
  readonly holds: boolean;
}

/** What a request asks for: `answer`, `cut`; anything else is held. */
type Answer = (what: string, socket: Socket, reply: string | Buffer) => void;

async function listening(serve: (socket: Socket, answer: Answer) => void): Promise<ScriptedServer> {
  let holds = false;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    serve(socket, (what, on, reply) => {
      if (what === 'answer') on.write(reply);
      else if (what === 'cut') on.destroy();
      else holds = true;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: { address: '127.0.0.1', port: (server.address() as AddressInfo).port },
    get holds() {
      return holds;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A Redis replica: `GET answer`, `GET hang`, `GET cut`. Takes one command per chunk, or several whole ones. */
export function scriptedRedis(): Promise<ScriptedServer> {
  const info = 'role:slave\r\nmaster_link_status:up\r\nloading:0\r\n';
  return listening((socket, answer) => {
    socket.on('data', (chunk) => {
      for (const [, text = ''] of `${chunk}`.matchAll(/\*\d+\r\n((?:\$\d+\r\n[^\r]*\r\n)+)/g)) {
        const [command = '', key = ''] = text.split('\r\n').filter((_, index) => index % 2 === 1);
        if (/^get$/i.test(command)) answer(key, socket, '$4\r\nhere\r\n');
        else if (/^info$/i.test(command)) socket.write(`$${info.length}\r\n${info}\r\n`);
        else socket.write('+OK\r\n');
      }
    });
  });
}

/** A PostgreSQL server whose statements are `answer`, `hang` and `cut`. Everybody may log in. */
export function scriptedPostgres(): Promise<ScriptedServer> {
  const message = (type: string, body: Buffer): Buffer => {
    const head = Buffer.alloc(5, type);
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, body]);
  };
  const ready = message('Z', Buffer.from('I'));
  return listening((socket, answer) => {
    let isStarted = false;
    socket.on('data', (chunk: Buffer) => {
      if (!isStarted) {
        isStarted = true;
        socket.write(Buffer.concat([message('R', Buffer.alloc(4)), ready]));
      } else if (chunk.toString('latin1', 0, 1) === 'Q') {
        const sql = chunk.toString('utf8', 5, chunk.readInt32BE(1));
        answer(sql, socket, Buffer.concat([message('C', Buffer.from('SELECT 0\0')), ready]));
      }
    });
  });
}
