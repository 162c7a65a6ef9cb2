import type { AgentOptions, ClientRequest } from 'node:http';
import { expect, it, vi } from 'vitest';
import { addRequest } from '../../../../src/adapter/http/internals.js';
import type { Pod } from '../../../../src/adapter/http/pod.js';
import { PodAgent } from '../../../../src/adapter/node-http/pod-agent.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

it('an Agent keeps its options without Node copying them for every request', () => {
  const agent = new PodAgent({
    endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
    origin: new URL('http://orders.shop'),
    pod: {} as Pod<PodAgent>,
    connections: 8,
    keepAliveTimeoutMs: 60_000,
    clock: new FakeClock(),
  });
  const options = (agent as unknown as { options: AgentOptions }).options;
  expect([options.keepAlive, options.maxFreeSockets]).toEqual([true, 8]);

  // No socket for anybody: the request is only put down.
  agent.maxSockets = 0;
  const named = vi.spyOn(agent, 'getName');
  const asked = { host: '10.0.0.1', servername: '' };
  addRequest(agent, {} as ClientRequest, asked);
  expect(named.mock.calls).toEqual([[asked]]);
});
