import { describe, expect, it } from 'vitest';
import { noCounts } from '../../../src/balancer/snapshot.js';
import { type EvenkeelError, errorCodes } from '../../../src/errors.js';
import { fixed } from '../../../src/limit/fixed.js';
import { observerEventNames } from '../../../src/observe/observer.js';
import { ApiFailure, resolveErrorOf } from '../../../src/resolver/kubernetes/api/api-failure.js';
import { ambiguousPort } from '../../../src/resolver/kubernetes/slices/service-ports.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { tableRows, textOf } from '../../support/docs-page.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const page = (name: string): string => textOf(`docs/reference/${name}.md`);
const source = (path: string): string => textOf(`src/${path}`);
const codeIn = (cell: string | undefined): string => /`([^`]+)`/.exec(cell ?? '')?.[1] ?? '';

describe('docs/reference/errors.md', () => {
  const text = page('errors');
  const sections = [...text.matchAll(/^## (EVENKEEL_\w+)\n([\s\S]*?)(?=^## |$(?![\s\S]))/gm)].map(([, code, body]) => ({
    code: code as string,
    body: body as string,
  }));

  it('has every code, in the table and as a section, in the order of the source', () => {
    expect(
      tableRows(text)
        .map(([cell]) => codeIn(cell))
        .filter((name) => name.startsWith('EVENKEEL_')),
    ).toEqual(errorCodes);
    expect(sections.map(({ code }) => code)).toEqual(errorCodes);
    for (const code of errorCodes) expect(source('errors.ts')).toContain(`- \`${code}\`:`);
  });

  it.each(sections)('$code: has when, what to do, and an example', ({ body }) => {
    expect(body).toContain('**When.**');
    expect(body).toContain('**What to do.**');
    expect(body).toMatch(/\n```\n.+\n```\n/);
  });

  /** The example of a code, made by the code that throws it. */
  const examples: Partial<Record<(typeof errorCodes)[number], () => unknown>> = {
    EVENKEEL_NO_ENDPOINTS: async () => {
      const fixture = new BalancerFixture({
        resolver: named(),
        stages: [() => ({ apply: (set) => set.filter(() => false) })],
      });
      await fixture.clock.advanceAsync(0);
      return failure(fixture.balancer.acquire());
    },
    EVENKEEL_NOT_READY: async () => {
      const connect = { message: 'connect ECONNREFUSED 10.0.0.1:80' };
      let opened = 0;
      const fixture: BalancerFixture = new BalancerFixture({
        resolver: named(),
        transport: {
          connect: (endpoint, signal) =>
            ++opened % 3 === 0
              ? fixture.transport.connect(endpoint, signal).then((made) => Object.assign(made, { capacity: 0 }))
              : Promise.reject(Object.assign(new Error(connect.message))),
        },
        pool: { reconnectInitialMs: 60_000, reconnectMaxMs: 60_000 },
      });
      const call = failure(fixture.balancer.acquire());
      await fixture.clock.advanceAsync(5_000);
      return call;
    },
    EVENKEEL_QUEUE_FULL: async () => {
      const fixture = new BalancerFixture({ maxWaiting: 20_000 });
      for (let i = 0; i < 20_000; i++) void fixture.balancer.acquire().catch(() => {});
      return failure(fixture.balancer.acquire());
    },
    EVENKEEL_OVERLOAD: async () => {
      const fixture = new BalancerFixture({ resolver: named(), limit: fixed(3) });
      await settle();
      for (let i = 0; i < 3; i++) fixture.balancer.pick();
      const call = failure(fixture.balancer.acquire());
      await fixture.clock.advanceAsync(100);
      void fixture.balancer.acquire().catch(() => {});
      return call;
    },
    EVENKEEL_CONNECT: async () => {
      const errors: unknown[] = [];
      const fixture = new BalancerFixture({
        transport: { connect: () => Promise.reject(new Error('connect ECONNREFUSED 10.0.0.1:80')) },
        observer: { subchannelChanged: ({ error }) => error && errors.push(error) },
      });
      await fixture.publish('10.0.0.1');
      return errors[0];
    },
    EVENKEEL_RESOLVE: () =>
      resolveErrorOf(new ApiFailure('network', '', 'connect ECONNREFUSED 10.96.0.1:443'), 'list', 'shop'),
    EVENKEEL_FORBIDDEN: () =>
      resolveErrorOf(new ApiFailure('forbidden', '', 'endpointslices is forbidden'), 'list', 'shop'),
    EVENKEEL_PORT_AMBIGUOUS: () => ambiguousPort('shop/orders', 80, ['http', 'metrics'], 'the Service may not be read'),
    EVENKEEL_CLOSED: async () => {
      const fixture = new BalancerFixture();
      await fixture.balancer.close();
      return failure(fixture.balancer.acquire());
    },
    EVENKEEL_OPTION: () => {
      try {
        return new BalancerFixture({ waitTimeoutMs: '5s' as never });
      } catch (error) {
        return error;
      }
    },
  };

  /** Three endpoints of a Service with a name as a resolver of slices has it. */
  function named(): FakeResolver {
    const resolver = new FakeResolver();
    Object.defineProperty(resolver, 'name', { value: 'endpointslices shop/orders:http' });
    resolver.update('10.0.0.1', '10.0.0.2', '10.0.0.3');
    return resolver;
  }

  it.each(Object.entries(examples))('%s: the example is the message of the source', async (code, make) => {
    const error = (await make()) as EvenkeelError;
    expect(error.code).toBe(code);
    const body = sections.find((section) => section.code === code)?.body;
    expect(/\n```\n(.+)\n```\n/.exec(body ?? '')?.[1]).toBe(error.message);
  });
});

describe('docs/reference/observer.md', () => {
  const rows = tableRows(page('observer'));
  const table = rows.filter((cells) => cells.length > 2);

  it('has every count in a snapshot', () => {
    const named = rows.filter((cells) => cells.length === 2).map(([names]) => names as string);
    const counts = named.flatMap((names) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name));
    expect(counts.sort()).toEqual(Object.keys(noCounts).sort());
  });

  it('has every event, in the order of the source, with its channel', () => {
    expect(table.map(([event]) => codeIn(event))).toEqual(observerEventNames);
    expect(table.map(([, channel]) => codeIn(channel))).toEqual(observerEventNames.map((name) => `evenkeel:${name}`));
  });

  it.each(table.map((cells) => [codeIn(cells[0]), cells[3] as string] as const))(
    '%s: the value is that in the source',
    (event, value) => {
      const declared =
        new RegExp(`^  ${event}: \\{([\\s\\S]*?)\\};$`, 'm').exec(source('observe/observer.ts'))?.[1] ?? '';
      const fields = [...declared.matchAll(/readonly (\w+)\??:/g)].map(([, field]) => field);
      expect(fields.length).toBeGreaterThan(0);
      expect([...value.matchAll(/`(\w+)`/g)].map(([, field]) => field)).toEqual(fields);
    },
  );
});
