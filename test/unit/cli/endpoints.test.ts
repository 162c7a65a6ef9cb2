import { expect, it } from 'vitest';
import { conditionsInWords, usable } from '../../../src/cli/endpoints.js';
import { createEndpoint, type Endpoint, type EndpointConditions } from '../../../src/endpoint/endpoint.js';

const pod = (address: string, conditions: EndpointConditions): Endpoint =>
  createEndpoint({ address, port: 80, conditions });
const ready = pod('10.0.0.1', { ready: true, serving: true, terminating: false });
const serving = pod('10.0.0.2', { ready: false, serving: true, terminating: true });
const ending = pod('10.0.0.3', { ready: false, serving: false, terminating: true });
const waiting = pod('10.0.0.4', { ready: false, serving: false, terminating: false });

it('tries what calls would go to: ready pods, and those that serve until they end only if there is none', () => {
  expect(usable([serving, ready, ending, waiting])).toEqual([ready]);
  expect(usable([serving, ending, waiting])).toEqual([serving]);
  expect(usable([ending, waiting])).toEqual([]);
});

it('says how a pod is', () => {
  expect([ready, serving, ending, waiting].map(conditionsInWords)).toEqual([
    'ready',
    'terminating, still serving',
    'terminating',
    'not ready',
  ]);
});
