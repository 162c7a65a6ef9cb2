import { Agent } from 'node:http';
import { expect, it } from 'vitest';
import { ownProperties } from '../../../src/runtime/own-properties.js';

it('copies what an object has itself, and nothing that it inherits', () => {
  const options = Object.assign(Object.create({ inherited: 1 }), { own: 2 });
  expect(ownProperties(options)).toEqual(Object.assign(Object.create(null), { own: 2 }));
  expect(Object.getPrototypeOf(ownProperties({}))).toBe(null);
});

it('leaves the values as they are: an Agent stays the Agent that it was', () => {
  const agent = new Agent();
  const nested = {};
  expect(ownProperties({ agent, nested }).agent).toBe(agent);
  expect(ownProperties({ agent, nested }).nested).toBe(nested);
});

it.each([undefined, null, 5, 'text', [1]])('returns %o unchanged, for the check that refuses it', (value) => {
  expect(ownProperties(value)).toBe(value);
});
