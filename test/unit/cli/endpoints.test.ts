import { expect, it } from 'vitest';
import { conditionsInWords, usable } from '../../../src/cli/endpoints.js';
import { createEndpoint, type Endpoint, type EndpointConditions } from '../../../src/endpoint/endpoint.js';

const pod = (address: string, conditions: EndpointConditions): Endpoint =>
  createEndpoint({ address, port: 80, conditions });
const ready = pod('10.0.0.1', { ready: true, serving: true, terminating: false });
const serving = pod('10.0.0.2', { ready: false, serving: true, terminating: true });
const ending = pod('10.0.0.3', { ready: false, serving: false, terminating: true });
const waiting = pod('10.0.0.4', { ready: false, serving: false, terminating: false });

it('tries the pods that calls would use: ready ones, and terminating ones that still serve if there are no others', () => {
  expect(usable([serving, ready, ending, waiting])).toEqual([ready]);
  expect(usable([serving, ending, waiting])).toEqual([serving]);
  expect(usable([ending, waiting])).toEqual([]);
});

it('describes the state of a pod', () => {
  expect([ready, serving, ending, waiting].map(conditionsInWords)).toEqual([
    'ready',
    'terminating, still serving',
    'terminating',
    'not ready',
  ]);
});
