import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createEndpoint } from '../../../src/index.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { until } from '../../support/until.js';
import { ask as askServer, type MysqlServer, transport } from './support/server.js';

const never = new AbortController().signal;

let clock: FakeClock;
let server: ScriptedMysql;
let connections: MysqlServer[];

beforeEach(async () => {
  clock = new FakeClock();
  server = await ScriptedMysql.start();
  connections = [];
});
afterEach(async () => {
  await Promise.all(connections.map((connection) => connection.close(AbortSignal.abort())));
  await server[Symbol.asyncDispose]();
});

const connect = async (options: Parameters<typeof transport>[0] = {}): Promise<MysqlServer> => {
  const opening = transport({ user: 'app', clock, rng: { next: () => 0.5 }, ...options });
  const connection = await opening.connect(createEndpoint(server.endpoint), never);
  connections.push(connection);
  return connection;
};
/** Asks once; resolves with the connection that answered. */
const ask = async (connection: MysqlServer): Promise<number> => {
  const [row] = (await askServer(connection, 'SELECT id')) as { readonly id: number }[];
  return row?.id as number;
};
/** So many statements at once, so that so many connections are open. */
const fill = async (connection: MysqlServer, count: number): Promise<void> => {
  server.reaction = () => 'hold';
  const asking = Array.from({ length: count }, () => ask(connection));
  await server.held(count);
  server.reaction = () => 'id';
  for (const held of server.connections) held.answer?.();
  await Promise.all(asking);
  expect(server.open).toBe(count);
};

describe('the connections to one server', () => {
  it('start with one that is opened in advance and then used', async () => {
    const connection = await connect();
    expect(server.accepted).toBe(1);
    expect(await ask(connection)).toBe(1);
    expect(await ask(connection)).toBe(1);
    expect(connection.capacity).toBe(10);
  });

  it('send COM_QUIT when they end', async () => {
    const connection = await connect();
    const [seen] = server.connections;
    await connection.close();
    await until('it is closed', () => server.open === 0);
    expect(seen?.quit).toBe(true);
    expect(await connection.closed).toBeUndefined();
  });

  it('that are idle for long are closed, except the last one', async () => {
    const connection = await connect({ idleTimeout: 10_000 });
    await fill(connection, 3);
    const seen = [...server.connections];
    clock.advance(10_000);
    await until('one is left', () => server.open === 1);
    clock.advance(60_000);
    expect(await ask(connection)).toBeGreaterThan(0);
    expect(seen.filter(({ quit }) => quit)).toHaveLength(2);
  });

  it('beyond maxIdle are closed when they are given back', async () => {
    const connection = await connect({ maxIdle: 2 });
    server.reaction = () => 'hold';
    const asking = Array.from({ length: 4 }, () => ask(connection));
    await server.held(4);
    for (const held of [...server.connections]) held.answer?.();
    await Promise.all(asking);
    await until('two are left', () => server.open === 2);
  });

  it('past their maximum age are replaced: the last one only once its replacement is open', async () => {
    const connection = await connect({ pool: { maxConnectionAgeMs: 60_000 }, idleTimeout: 86_400_000 });
    let most = 0;
    clock.advance(60_000);
    await until('there is another', () => {
      most = Math.max(most, server.open);
      return server.accepted === 2;
    });
    await until('the first is gone', () => server.open === 1);
    expect(await ask(connection)).toBe(2);
  });

  it('past their maximum age are kept while they are needed', async () => {
    const connection = await connect({ pool: { maxConnectionAgeMs: 60_000 }, idleTimeout: 86_400_000 });
    server.reaction = () => 'hold';
    const asking = ask(connection);
    const held = await server.held();
    clock.advance(60_000);
    await until('its successor is there', () => server.open === 2);
    expect(held.quit).toBe(false);
    held.answer?.();
    expect(await asking).toBe(1);
    server.reaction = () => 'id';
    clock.advance(1_000);
    await until('it is replaced', () => server.accepted === 2 && server.open === 1);
  });

  it('past their maximum age stay if no replacement can be opened, and a replacement is not tried again and again', async () => {
    const connection = await connect({ pool: { maxConnectionAgeMs: 60_000 }, idleTimeout: 86_400_000 });
    server.greeting = { code: 1040, message: 'Too many connections' };
    clock.advance(60_000);
    await until('it was tried', () => server.accepted === 2);
    await until('only the first is left', () => server.open === 1);
    clock.advance(30_000);
    expect(await ask(connection)).toBe(1);
    expect(server.accepted).toBe(2);
  });

  it('report their end: clean, with an error, or cut', async () => {
    const clean = await connect();
    server.end('cleanly');
    expect(await clean.closed).toBeUndefined();
    const bad = await connect();
    server.end('badly');
    expect(await bad.closed).toBeInstanceOf(Error);
    server.reaction = () => 'hold';
    const busy = await connect();
    const asking = ask(busy);
    await server.held();
    server.end('cleanly');
    await expect(asking).rejects.toMatchObject({ code: 'PROTOCOL_CONNECTION_LOST' });
    expect(await busy.closed).toBeInstanceOf(Error);
  });

  it('end cleanly when the server resets one that was idle for wait_timeout', async () => {
    const connection = await connect();
    clock.advance(2_000);
    server.end('badly');
    expect(await connection.closed).toBeUndefined();
  });

  it('go on when the server closes an idle one of several', async () => {
    const connection = await connect();
    await fill(connection, 2);
    server.connections[0]?.socket.end();
    await until('one is left', () => server.open === 1);
    expect(await ask(connection)).toBe(2);
    expect(await Promise.race([connection.closed, Promise.resolve('open')])).toBe('open');
  });

  it('are left when the server accepts no more: open ones go on', async () => {
    const connection = await connect();
    server.reaction = () => 'hold';
    const asking = ask(connection);
    const held = await server.held();
    await server.stopListening();
    await expect(ask(connection)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    held.answer?.();
    expect(await asking).toBe(1);
  });
});

describe('the ping of a health check', () => {
  it('is MySQL’s own', async () => {
    const connection = await connect();
    await connection.ping?.(never);
    expect(server.connections[0]?.pings).toBe(1);
    expect(server.accepted).toBe(1);
  });

  it('uses a connection other than those in use', async () => {
    const connection = await connect({ connectionLimit: 1 });
    server.reaction = () => 'hold';
    const asking = ask(connection);
    const held = await server.held();
    await connection.ping?.(never);
    held.answer?.();
    await asking;
  });

  it('that is refused a connection does not delay the trial of one more', async () => {
    const connection = await connect();
    server.reaction = () => 'hold';
    const asking = ask(connection);
    const held = await server.held();
    server.greeting = { code: 1040, message: 'Too many connections' };
    await expect(connection.ping?.(never)).rejects.toThrow('Too many connections');
    expect(connection.capacity).toBe(1);
    clock.advance(4_000);
    await expect(connection.ping?.(never)).rejects.toThrow('Too many connections');
    clock.advance(1_000);
    expect(connection.capacity).toBe(2);
    held.answer?.();
    await asking;
  });

  it('ends with its signal, and the connection that did not answer with it', async () => {
    const connection = await connect();
    server.answersPings = false;
    const limit = new AbortController();
    const asking = connection.ping?.(limit.signal);
    await until('it was asked', () => server.connections[0]?.pings === 1);
    limit.abort(new Error('too late'));
    await expect(asking).rejects.toThrow('too late');
    await until('it is gone', () => server.open === 0);
  });
});
