import { AsyncLocalStorage } from 'node:async_hooks';
import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import type { Dialled } from '../../../../src/adapter/http/dial.js';
import type { Pod } from '../../../../src/adapter/http/pod.js';
import { PodAgent } from '../../../../src/adapter/node-http/pod-agent.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

it('a request moves on in its own async context, whatever ended its dial', () => {
  const dials: Dialled[] = [];
  const pod = { socketSet: { hasSpare: false }, dial: (dialled: Dialled) => void dials.push(dialled) };
  const agent = new PodAgent({
    endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
    origin: new URL('http://orders.shop'),
    pod: pod as unknown as Pod<PodAgent>,
    connections: 8,
    keepAliveTimeoutMs: 60_000,
    clock: new FakeClock(),
  });
  const context = new AsyncLocalStorage<string>();
  const heard: unknown[] = [];
  const seeker = {
    request: { reusedSocket: false, onSocket() {}, once() {} },
    wanted: true,
    movable: true,
    podLeft: false,
    assigned() {},
    refused: () => void heard.push(context.getStore()),
  };
  context.run('ann', () => agent.findSocket(seeker));
  context.run('bob', () => dials[0]?.(new Error('the pod left'), new Socket().destroy()));
  expect(heard).toEqual(['ann']);
});
