import { spawn } from 'node:child_process';
import { promises as dns } from 'node:dns';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const program = fileURLToPath(new URL('../../servers/dns-program.js', import.meta.url));

it('the DNS server as a program takes commands line by line, and ends with its input', async () => {
  const child = spawn(process.execPath, [program, '--ttl', '7', '--domain', 'k8s.example']);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await lines.next()).value);
  const command = async (what: object | string): Promise<unknown> => {
    child.stdin.write(`${typeof what === 'string' ? what : JSON.stringify(what)}\n`);
    return JSON.parse(await next());
  };
  const address = (await next()).replace('listening ', '');
  const client = new dns.Resolver({ timeout: 60_000, tries: 1 });
  client.setServers([address]);

  const service = { namespace: 'shop', name: 'orders', pods: [{ address: '10.0.0.1' }] };
  expect(await command({ service, records: { name: 'db.example', a: ['10.0.0.2'] } })).toEqual({ ok: true });
  expect(await client.resolve4('orders.shop.svc.k8s.example', { ttl: true })).toEqual([
    { address: '10.0.0.1', ttl: 7 },
  ]);
  expect(await client.resolve4('db.example')).toEqual(['10.0.0.2']);
  await command({ fault: { kind: 'rcode', rcode: 'SERVFAIL', scope: { name: 'db.example' } } });
  await expect(client.resolve4('db.example')).rejects.toMatchObject({ code: 'ESERVFAIL' });
  await command({ clearFaults: true, deleteRecords: 'db.example' });
  await expect(client.resolve4('db.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  expect(await command({ count: 'db.example' })).toEqual({ ok: true, count: 3 });
  expect(await command('no JSON')).toMatchObject({ error: expect.stringContaining('SyntaxError') });

  const ended = new Promise((resolve) => child.on('close', resolve));
  child.stdin.end();
  expect(await ended).toBe(0);
});
