/**
 * A contender whose connections are opened anew from time to time: calls that run on the old ones end there, and only then are those
 * closed. The clients' own ways to close fail, or forget, a call that they have only just begun.
 * @param {() => Omit<import('./fleet-contenders.mjs').Contender, 'renew'>} open
 * @returns {import('./fleet-contenders.mjs').Contender}
 */
export function renewable(open) {
  let current = { client: open(), running: 0 };
  return {
    call: async (workMs) => {
      const used = current;
      used.running++;
      try {
        return await used.client.call(workMs);
      } finally {
        used.running--;
        if (used !== current && used.running === 0) void used.client.close();
      }
    },
    renew: () => {
      const old = current;
      current = { client: open(), running: 0 };
      if (old.running === 0) void old.client.close();
    },
    close: () => current.client.close(),
  };
}
