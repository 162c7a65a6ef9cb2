import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadKubeConfig } from '../../../src/cli/load-kube-config.js';
import { kubeConfigAccess } from '../../../src/resolver/kubernetes/api/kube-config.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'evenkeel-kubeconfig-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function write(text: string): Promise<string> {
  const path = join(directory, 'config');
  await writeFile(path, text);
  return path;
}

const twoContexts = JSON.stringify({
  'current-context': 'dev',
  clusters: [
    {
      name: 'c',
      cluster: { server: 'https://api:6443', 'certificate-authority-data': Buffer.from('CA').toString('base64') },
    },
  ],
  users: [{ name: 'u', user: { token: 'from-config' } }],
  contexts: [
    { name: 'dev', context: { cluster: 'c', user: 'u', namespace: 'shop' } },
    { name: 'other', context: { cluster: 'c', user: 'u', namespace: 'web' } },
  ],
});

it('reads a file, in its current context or another', async () => {
  const path = await write(twoContexts);
  for (const [context, namespace] of [
    [undefined, 'shop'],
    ['other', 'web'],
  ] as const) {
    const session = kubeConfigAccess(await loadKubeConfig({ path, context })).open(new FakeClock());
    expect(await session.target()).toMatchObject({
      server: 'https://api:6443',
      headers: { authorization: 'Bearer from-config' },
      tls: { ca: 'CA' },
    });
    expect(await session.namespace()).toBe(namespace);
  }
});

it('names a file that is missing', async () => {
  const path = join(directory, 'missing');
  await expect(loadKubeConfig({ path, context: undefined })).rejects.toMatchObject({
    code: 'EVENKEEL_OPTION',
    message: expect.stringContaining(path),
  });
});

it('does not quote the surrounding lines in an error about invalid YAML', async () => {
  const path = await write('users:\n - name: me\n  token: hunter2\n bad');
  const error: unknown = await loadKubeConfig({ path, context: undefined }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: expect.stringMatching(/cannot be read: bad indentation/) });
  expect(inspect(error, { depth: 9 })).not.toContain('hunter2');
});
