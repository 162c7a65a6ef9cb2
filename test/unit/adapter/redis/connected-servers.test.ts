import { describe, expect, it } from 'vitest';
import { ConnectedServers } from '../../../../src/adapter/redis/connected-servers.js';
import { settle } from '../../../../src/testing/fake-clock.js';

function connection() {
  let end = (): void => {};
  const closed = new Promise<void>((resolve) => (end = resolve));
  return { closed, isClosing: false, end };
}

function connected() {
  let changes = 0;
  const servers = new ConnectedServers<ReturnType<typeof connection>>(() => changes++);
  return { servers, changes: () => changes };
}

describe('the connected servers', () => {
  it('are unknown until they are connected, and after their end', async () => {
    const { servers, changes } = connected();
    const only = connection();
    expect(servers.get('a')).toBeUndefined();
    servers.opened('a', only);
    expect([servers.get('a'), servers.get('b'), changes()]).toEqual([only, undefined, 1]);
    only.end();
    await settle();
    expect([servers.get('a'), changes()]).toEqual([undefined, 2]);
  });

  it('are the old ones again when the pool discards the new connection unused', async () => {
    const { servers, changes } = connected();
    const [old, discarded] = [connection(), connection()];
    servers.opened('a', old);
    servers.opened('a', discarded);
    expect(servers.get('a')).toBe(discarded);
    discarded.isClosing = true;
    expect(servers.get('a')).toBe(old);
    discarded.end();
    await settle();
    expect([servers.get('a'), changes()]).toEqual([old, 3]);
  });

  it('are not those that were replaced, on which reads only finish', async () => {
    const { servers } = connected();
    const [old, latest] = [connection(), connection()];
    servers.opened('a', old);
    servers.opened('a', latest);
    old.isClosing = true;
    latest.end();
    await settle();
    expect(servers.get('a')).toBeUndefined();
    old.end();
    await settle();
    expect(servers.get('a')).toBeUndefined();
  });
});
