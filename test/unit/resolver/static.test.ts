import { describe, expect, it } from 'vitest';
import { staticEndpoints } from '../../../src/resolver/static.js';

describe('staticEndpoints', () => {
  it('has a short name, however long the list', () => {
    const endpoints = Array.from({ length: 1_000 }, (_, i) => ({ address: `10.0.${i >> 8}.${i & 255}`, port: 80 }));
    expect(staticEndpoints(endpoints.slice(0, 2)).name).toBe('static 10.0.0.0:80,10.0.0.1:80');
    expect(staticEndpoints(endpoints).name).toBe('static 10.0.0.0:80,10.0.0.1:80,10.0.0.2:80,… (1000)');
  });

  it.each([
    [[], 'endpoints must be a list of at least one'],
    ['10.0.0.1:80', 'endpoints must be a list of at least one'],
    [['10.0.0.1:80'], 'endpoints[0] must be an object, got "10.0.0.1:80"'],
    [[{ address: '10.0.0.1', port: 80, wieght: 2 }], 'endpoints[0] has no option "wieght"'],
    [[{ address: '10.0.0.1' }], 'port must be a port'],
  ])('refuses %o', (endpoints, message) => {
    expect(() => staticEndpoints(endpoints as never)).toThrow(message);
  });
});
