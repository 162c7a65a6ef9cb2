import { createServer, type Server, type Socket } from 'node:net';
import * as mysql2 from 'mysql2';
import { until } from '../until.js';

/** mysql2's own server side, which its types hardly describe. */
interface ServerSide {
  /** Counts the packets of one command. */
  sequenceId: number;
  on(event: 'query', listener: (sql: string) => void): this;
  on(event: 'ping' | 'quit' | 'end', listener: () => void): this;
  on(event: 'error', listener: (error: Error) => void): this;
  serverHandshake(args: object): void;
  writeOk(args?: object): void;
  writeError(args: { readonly code: number; readonly message: string }): void;
  writeTextResult(rows: readonly object[], columns: readonly object[]): void;
}

/** One connection as the server sees it. */
export interface ScriptedConnection {
  readonly id: number;
  readonly socket: Socket;
  /** All statements received. */
  readonly statements: string[];
  /** Number of pings received. */
  pings: number;
  /** Whether the client sent COM_QUIT. */
  quit: boolean;
  /** Answers the held statement. */
  answer: (() => void) | undefined;
}

/** What a server does with a statement; `id`: answers with the connection's id. */
export type Reaction = 'id' | 'hold' | { readonly code: number; readonly message: string };

/** A server that speaks enough MySQL for a test to control what it answers and when: in this process, on loopback. */
export class ScriptedMysql implements AsyncDisposable {
  readonly connections: ScriptedConnection[] = [];
  /** Connections so far. */
  accepted = 0;
  /** How it greets: `silent` accepts and says nothing, `late` waits for `greet`, `reset` resets the connection as in a crash. */
  greeting: 'hello' | 'silent' | 'late' | 'reset' | { readonly code: number; readonly message: string } = 'hello';
  reaction: (sql: string) => Reaction = () => 'id';
  answersPings = true;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #ungreeted: (() => void)[] = [];

  private constructor() {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  static async start(): Promise<ScriptedMysql> {
    const server = new ScriptedMysql();
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return { address: '127.0.0.1', port: (this.#server.address() as { port: number }).port };
  }

  /** How many sockets are open. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Greets connections accepted while it was `late`. */
  greet(): void {
    for (const greet of this.#ungreeted.splice(0)) greet();
  }

  /** Accepts no further connections; open ones continue. */
  async stopListening(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    // Only the listener matters; `close` also waits for connections.
    if (this.open === 0) await closed;
  }

  /** Ends all connections: with FIN, or as in a crash. */
  end(how: 'cleanly' | 'badly'): void {
    for (const socket of this.#sockets) {
      if (how === 'cleanly') socket.end();
      else socket.resetAndDestroy();
    }
  }

  /** The connection with a held statement. */
  async held(count = 1): Promise<ScriptedConnection> {
    const holding = (): ScriptedConnection[] => this.connections.filter(({ answer }) => answer !== undefined);
    await until(`${count} statements are held`, () => holding().length === count);
    return holding()[0] as ScriptedConnection;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(socket: Socket): void {
    this.accepted++;
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => this.#sockets.delete(socket));
    const { greeting } = this;
    if (greeting === 'silent') {
      socket.resume();
      return;
    }
    if (greeting === 'reset') {
      socket.resetAndDestroy();
      return;
    }
    const { Connection, ConnectionConfig } = mysql2 as unknown as {
      readonly Connection: new (options: object) => ServerSide;
      readonly ConnectionConfig: new (options: object) => object;
    };
    const config = new ConnectionConfig({ stream: socket, isServer: true });
    const side = new Connection({ config });
    side.on('error', () => {});
    side.on('end', () => socket.end());
    if (typeof greeting === 'object') {
      side.writeError(greeting);
      socket.end();
      return;
    }
    const connection: ScriptedConnection = {
      id: this.accepted,
      socket,
      statements: [],
      pings: 0,
      quit: false,
      answer: undefined,
    };
    this.connections.push(connection);
    socket.once('close', () => this.connections.splice(this.connections.indexOf(connection), 1));
    side.on('query', (sql) => {
      connection.statements.push(sql);
      const reaction = this.reaction(sql);
      const answer = (): void => {
        connection.answer = undefined;
        side.sequenceId = 1;
        side.writeTextResult([{ id: connection.id }], [column('id')]);
        side.sequenceId = 0;
      };
      if (reaction === 'id') answer();
      else if (reaction === 'hold') connection.answer = answer;
      else {
        side.sequenceId = 1;
        side.writeError(reaction);
        side.sequenceId = 0;
      }
    });
    side.on('ping', () => {
      connection.pings++;
      side.sequenceId = 1;
      if (this.answersPings) side.writeOk();
      side.sequenceId = 0;
    });
    side.on('quit', () => {
      connection.quit = true;
      socket.end();
    });
    const handshake = {
      protocolVersion: 10,
      serverVersion: '8.0.0 scripted',
      connectionId: connection.id,
      statusFlags: 2,
      characterSet: 45,
      authCallback: (_: object, accept: (error: null) => void) => {
        accept(null);
        side.sequenceId = 0;
      },
      // Without SSL, compression and password plug-ins.
      capabilityFlags: 0x00ff_f7df & ~0x0000_0820,
    };
    if (greeting === 'late') this.#ungreeted.push(() => side.serverHandshake(handshake));
    else side.serverHandshake(handshake);
  }
}

const column = (name: string): object => ({
  catalog: 'def',
  schema: '',
  table: '',
  orgTable: '',
  name,
  orgName: name,
  characterSet: 45,
  columnLength: 20,
  columnType: 3,
  flags: 0,
  decimals: 0,
});
