import { strict as assert } from 'node:assert';
import { getEventListeners } from 'node:events';
import { promises as timers } from 'node:timers';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Connection, Transport } from '../pool/transport.js';

/** A transport under test and the servers behind its connections. The suite opens one for each test. */
export interface TransportWorld<C> {
  /** The transport under test. */
  readonly transport: Transport<C>;
  /** An endpoint that accepts connections. */
  readonly endpoint: Endpoint;
  /** An endpoint at which nothing listens. */
  readonly refusing: Endpoint;
  /** An endpoint that neither accepts nor refuses connections, or accepts them and never finishes the handshake. */
  readonly hanging: Endpoint;
  /** Returns how many connections are open, as seen by the server if there is one. */
  open(): number;
  /** Ends all open connections from the server's side: in order, or as in a crash. */
  end(how: 'cleanly' | 'badly'): void;
  /** Starts a call that runs until it is finished or cut; resolves once the call has started. `ended` settles with how it ended. */
  call(handle: C): Promise<{ readonly ended: Promise<'finished' | 'cut'>; finish(): void }>;
  /** Closes the servers of the test and everything they have open. */
  close(): void | Promise<void>;
}

/** How a test runner accepts tests: vitest, Jest, mocha and node:test do it so. */
export interface TestRunner {
  /** Opens a group of tests: `describe` of vitest, Jest and mocha, `suite` of node:test. */
  readonly describe: (name: string, body: () => void) => unknown;
  /** Adds a test that fails if its promise rejects. */
  readonly it: (name: string, body: () => Promise<void>) => unknown;
}

/** What the suite must know about a transport. */
export interface TransportContract<C> {
  /** The heading of the suite's tests. */
  readonly name: string;
  /** Opens the transport and its servers for one test. */
  open(): TransportWorld<C> | Promise<TransportWorld<C>>;
  /** Whether a connection survives when the server ends it in order while idle (as a pool of sockets does). */
  readonly outlivesCleanEnd?: boolean;
  /** Whether calls continue after a close that cuts, because only their client can end them (as in gRPC). */
  readonly callsOutliveCut?: boolean;
}

/**
 * What every transport promises (`Transport`, `Connection`), as tests for any runner: for authors of adapters.
 * @example
 * import { describe, it } from 'node:test';
 * transportContract({ describe, it }, { name: 'lines', open: () => lineWorld() });
 */
export function transportContract<C>(
  { describe, it }: TestRunner,
  { name, open, outlivesCleanEnd = false, callsOutliveCut = false }: TransportContract<C>,
): void {
  const inWorld = (test: (world: TransportWorld<C>) => Promise<void>) => async (): Promise<void> => {
    const world = await open();
    try {
      await test(world);
      await until('nothing is left open', () => world.open() === 0);
    } finally {
      await world.close();
    }
  };
  const never = new AbortController().signal;

  describe(`the transport contract: ${name}`, () => {
    it(
      'delivers a connection that can carry a call, and stops listening to the signal',
      inWorld(async ({ transport, endpoint, open: opened, call }) => {
        const limit = new AbortController();
        const connection = await transport.connect(endpoint, limit.signal);
        await until('one is open', () => opened() === 1);
        assert(connection.capacity > 0);
        assert.equal(await isPending(connection.closed), true);
        assert.equal(getEventListeners(limit.signal, 'abort').length, 0);
        const { ended, finish } = await call(connection.handle);
        finish();
        assert.equal(await ended, 'finished');
        await connection.close();
      }),
    );

    it(
      'rejects with an Error if nothing listens',
      inWorld(async ({ transport, refusing }) => {
        await assert.rejects(transport.connect(refusing, never), Error);
      }),
    );

    it(
      'rejects when the signal has aborted before',
      inWorld(async ({ transport, endpoint }) => {
        await assert.rejects(transport.connect(endpoint, AbortSignal.abort()));
      }),
    );

    it(
      'rejects when the signal aborts while it connects, and leaves nothing open',
      inWorld(async ({ transport, hanging, endpoint }) => {
        for (const to of [hanging, endpoint]) {
          const limit = new AbortController();
          const opening = transport.connect(to, limit.signal);
          limit.abort();
          await assert.rejects(opening);
          assert.equal(getEventListeners(limit.signal, 'abort').length, 0);
        }
      }),
    );

    it(
      'closes: closed settles cleanly, and closing again is no error',
      inWorld(async ({ transport, endpoint, open: opened }) => {
        const connection = await transport.connect(endpoint, never);
        await Promise.all([connection.close(), connection.close()]);
        assert.equal(await connection.closed, undefined);
        await connection.close();
        await connection.close(AbortSignal.abort());
        await until('it is closed', () => opened() === 0);
      }),
    );

    it(
      'lets a running call finish before it closes',
      inWorld(async ({ transport, endpoint, call }) => {
        const connection = await transport.connect(endpoint, never);
        const { ended, finish } = await call(connection.handle);
        const closing = connection.close();
        assert.equal(await isPending(closing), true);
        finish();
        assert.equal(await ended, 'finished');
        await closing;
        assert.equal(await connection.closed, undefined);
      }),
    );

    it(
      'cuts running calls when the signal of close aborts, at once or later',
      inWorld(async ({ transport, endpoint, call }) => {
        for (const limit of [AbortSignal.abort(), undefined]) {
          const connection = await transport.connect(endpoint, never);
          const { ended, finish } = await call(connection.handle);
          const controller = new AbortController();
          const closing = connection.close(limit ?? controller.signal);
          controller.abort();
          if (!callsOutliveCut) assert.equal(await ended, 'cut');
          await closing;
          await connection.closed;
          if (callsOutliveCut) finish();
        }
      }),
    );

    it(
      'accepts a second close that cuts what the first would let finish',
      inWorld(async ({ transport, endpoint, call }) => {
        const connection = await transport.connect(endpoint, never);
        const { ended, finish } = await call(connection.handle);
        const first = connection.close();
        await connection.close(AbortSignal.abort());
        if (!callsOutliveCut) assert.equal(await ended, 'cut');
        await first;
        if (callsOutliveCut) finish();
      }),
    );

    it(
      'reports once that the peer ended it, and can be closed afterwards',
      inWorld(async ({ transport, endpoint, end, call }) => {
        const connection = await transport.connect(endpoint, never);
        const { ended } = await call(connection.handle);
        end('badly');
        assert.equal(await ended, 'cut');
        if (!outlivesCleanEnd) {
          const first = await connection.closed;
          assert.equal(await connection.closed, first);
        }
        await connection.close();
        await connection.closed;
      }),
    );

    if (!outlivesCleanEnd) {
      it(
        'tells a clean end from a bad one',
        inWorld(async ({ transport, endpoint, end }) => {
          const clean = await transport.connect(endpoint, never);
          end('cleanly');
          assert.equal(await clean.closed, undefined);
          const bad = await transport.connect(endpoint, never);
          end('badly');
          assert((await bad.closed) instanceof Error);
        }),
      );
    }

    it(
      'keeps connections apart',
      inWorld(async ({ transport, endpoint, open: opened, call }) => {
        const [one, other] = (await Promise.all([
          transport.connect(endpoint, never),
          transport.connect(endpoint, never),
        ])) as [Connection<C>, Connection<C>];
        await until('both are open', () => opened() === 2);
        await one.close();
        await until('one is left', () => opened() === 1);
        const { ended, finish } = await call(other.handle);
        finish();
        assert.equal(await ended, 'finished');
        await other.close();
      }),
    );
  });
}

/** Whether a promise is still pending after everything that is under way in this process has had its turn. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  return (await Promise.race([promise, timers.setImmediate(pending)])) === pending;
}

/** Waits for a state that only the server can bring about. The timeout guards against hanging and says nothing about speed. */
async function until(what: string, condition: () => boolean, timeoutMs = 30_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await timers.setTimeout(5);
  }
}
