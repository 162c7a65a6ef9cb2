import { createServer, type Socket } from 'node:net';
import type { PgServer } from '../../../src/adapter/pg/connection.js';
import { poolSettings } from '../../../src/adapter/pg/options.js';
import type { PgSession } from '../../../src/adapter/pg/session.js';
import { PgTransport } from '../../../src/adapter/pg/transport.js';
import type { Borrower } from '../../../src/adapter/sql/session.js';
import { createEndpoint, systemClock, systemRng } from '../../../src/index.js';
import { transportContract } from '../../contract/transport.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { until } from '../../support/until.js';

const message = (type: string, body: Buffer = Buffer.alloc(0)): Buffer => {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
};
const ready = message('Z', Buffer.from('I'));
const welcome = Buffer.concat([message('R', Buffer.alloc(4)), ready]);
const answer = Buffer.concat([message('C', Buffer.from('SELECT 0\0')), ready]);

/** The server's side of PostgreSQL's protocol: lets everybody in, and keeps each statement until it is answered. */
class ScriptedPostgres {
  readonly #sockets = new Set<Socket>();
  readonly #held: Socket[] = [];
  readonly #server = createServer((socket) => this.#serve(socket));
  /** Accepts connections, and answers nothing. */
  readonly #isSilent: boolean;
  held = 0;

  constructor(isSilent = false) {
    this.#isSilent = isSilent;
  }

  async start(): Promise<{ readonly address: string; readonly port: number }> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this.#server.address() as { readonly address: string; readonly port: number };
  }

  get open(): number {
    return this.#sockets.size;
  }

  /** The connection with the latest statement. */
  latest(): Socket {
    return this.#held.at(-1) as Socket;
  }

  end(how: 'cleanly' | 'badly'): void {
    for (const socket of this.#sockets) {
      if (how === 'cleanly') socket.end();
      else socket.resetAndDestroy();
    }
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket)).on('error', () => {});
    let isIn = false;
    socket.on('data', (chunk) => {
      if (this.#isSilent) return;
      if (!isIn) {
        isIn = true;
        socket.write(welcome);
      } else if (chunk.toString('latin1', 0, 1) === 'Q') {
        this.#held.push(socket);
        this.held++;
      } else socket.end();
    });
  }
}

transportContract<PgServer>({
  name: 'evenkeel/pg',
  outlivesCleanEnd: true,
  open: async () => {
    const server = new ScriptedPostgres();
    const endpoint = createEndpoint(await server.start());
    const silent = new ScriptedPostgres(true);
    const nothing = (): void => {};
    const transport = new PgTransport({
      settings: poolSettings({ target: 'postgres.shop:5432', user: 'app', database: 'app' }),
      clock: systemClock,
      rng: systemRng,
      events: { connected: nothing, removed: nothing, failed: nothing, warned: nothing, leftOpen: nothing },
      roles: undefined,
    });
    return {
      transport,
      endpoint,
      refusing: createEndpoint(await refusingEndpoint()),
      hanging: createEndpoint(await silent.start()),
      open: () => server.open + silent.open,
      end: (how) => server.end(how),
      call: async (handle) => {
        const before = server.held;
        const ended = new Promise<'finished' | 'cut'>((resolve, reject) => {
          const borrower: Borrower<PgSession> = {
            isOwn: false,
            waits: nothing,
            notLent: reject,
            lent: (session) => {
              session.run('SELECT', undefined, (error) => {
                if (error) session.kill(error);
                session.release(() => {});
                resolve(error ? 'cut' : 'finished');
              });
            },
          };
          handle.borrow(borrower);
        });
        await until('the statement arrived', () => server.held > before);
        const socket = server.latest();
        return { ended, finish: () => socket.write(answer) };
      },
      close: async () => {
        await server.close();
        await silent.close();
      },
    };
  },
});
