import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { type TriedAttempt, TriedEndpoints } from '../../../src/retry/tried-endpoints.js';
import { subchannel } from '../../support/fixtures/pick-set.js';

function attempt(name: string, handle: object = {}): TriedAttempt<object> {
  return { subchannel: subchannel(name) as never, handle };
}

describe('an endpoint where a call was tried', () => {
  it('is avoided', () => {
    const tried = new TriedEndpoints<object>();
    const first = attempt('10.0.0.1');
    tried.add(first, outcomes.reset);
    expect([...tried.avoid]).toEqual([first.subchannel]);
    expect(tried.allows(attempt('10.0.0.2'))).toBe(true);
  });

  it('is not used again at once when no connection could be opened', () => {
    const tried = new TriedEndpoints<object>();
    const first = attempt('10.0.0.1');
    tried.add(first, outcomes.notConnected);
    expect(tried.allows(first)).toBe(false);
  });

  it('may be used again over a connection opened since', () => {
    const tried = new TriedEndpoints<object>();
    const first = attempt('10.0.0.1');
    tried.add(first, outcomes.notConnected);
    expect(tried.allows({ subchannel: first.subchannel, handle: {} })).toBe(true);
  });

  it('may be used once more if it refused the call', () => {
    const tried = new TriedEndpoints<object>();
    const first = attempt('10.0.0.1');
    for (const allowed of [true, false]) {
      tried.add(first, outcomes.notStarted);
      tried.refused(first);
      expect(tried.allows(first)).toBe(allowed);
      expect(tried.allows(attempt('10.0.0.2'))).toBe(true);
    }
  });

  it('may be used again if a reused connection died', () => {
    const tried = new TriedEndpoints<object>();
    const first = attempt('10.0.0.1');
    tried.add(first, outcomes.reset);
    expect(tried.allows(first)).toBe(true);
    tried.add(first, outcomes.notConnected);
    expect(tried.allows(first)).toBe(false);
    tried.add(first, outcomes.notStarted);
    expect(tried.allows(first)).toBe(true);
  });

  it.each(['status', 'overload', 'timeout', 'protocol', 'success'] as const)(
    'is not used again after its own %s, over whatever connection',
    (name) => {
      const tried = new TriedEndpoints<object>();
      const first = attempt('10.0.0.1');
      tried.add(first, outcomes[name]);
      expect(tried.allows(first)).toBe(false);
      expect(tried.allows({ subchannel: first.subchannel, handle: {} })).toBe(false);
    },
  );

  it('is distinguished from others, also where every handle is undefined', () => {
    const tried = new TriedEndpoints<undefined>();
    const one = { subchannel: subchannel('10.0.0.1') as never, handle: undefined };
    tried.add(one, outcomes.notConnected);
    expect(tried.allows(one)).toBe(false);
    expect(tried.allows({ subchannel: subchannel('10.0.0.2') as never, handle: undefined })).toBe(true);
  });
});
