import { copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';
import { Pods } from '../../support/pods/pods.js';
import { runProgram } from '../../support/programs/consumer.js';
import { admit } from '../../unit/deploy/admission.js';

const root = join(import.meta.dirname, '../../..');

describe('the image that deploy/ mounts into pods', () => {
  let folder: string;
  let image: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'evenkeel-image-test-'));
    // What deploy/image/Dockerfile installs and copies.
    image = join(folder, 'image');
    const modules = join(image, 'node_modules');
    await mkdir(join(modules, 'evenkeel'), { recursive: true });
    const tar = ['-xzf', inject('tarball'), '-C', join(modules, 'evenkeel'), '--strip-components=1'];
    expect((await runProgram('tar', tar, folder)).code).toBe(0);
    await cp(join(root, 'node_modules/undici'), join(modules, 'undici'), { recursive: true, dereference: true });
    await copyFile(join(root, 'deploy/loader/register.cjs'), join(image, 'register.cjs'));
    await writeFile(join(folder, 'app.cjs'), 'console.log("the app runs", process.argv.slice(2).join(" "));\n');
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  const runApp = (loader: string) => runProgram(process.execPath, ['--require', loader, 'app.cjs', 'well'], folder);

  test('an app started with its loader runs, and nothing is printed', async () => {
    expect(await runApp(join(image, 'register.cjs'))).toEqual({ code: 0, stdout: 'the app runs well\n', stderr: '' });
  });

  test('a loader without the other files lets the app run, and says so in one line', async () => {
    const alone = join(folder, 'register.cjs');
    await writeFile(alone, await readFile(join(image, 'register.cjs')));
    const { code, stdout, stderr } = await runApp(alone);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'the app runs well\n' });
    expect(stderr).toMatch(/^evenkeel: not loaded, the app runs without it: [^\n]+\n$/);
  });

  describe('the file that the injection policy mounts', () => {
    const labels = { 'evenkeel.dev/inject': 'enabled' };
    const { annotations } = admit({ metadata: { labels }, spec: { containers: [{ name: 'app' }] } }).metadata;
    const text = annotations?.['evenkeel.dev/loader'] as string;
    const start = async (mounted: string) => {
      const loader = join(folder, 'mounted.cjs');
      await writeFile(loader, text.replaceAll('/evenkeel/', `${mounted}/`));
      return runProgram(process.execPath, ['app.cjs', 'well'], folder, { NODE_OPTIONS: `--require=${loader}` });
    };

    test('loads the image', async () => {
      expect(await start(image)).toEqual({ code: 0, stdout: 'the app runs well\n', stderr: '' });
    });

    test('lets the app run where a runtime mounts nothing, and says so in one line', async () => {
      const empty = await mkdtemp(join(folder, 'empty-'));
      for (const mounted of [empty, join(folder, 'absent')]) {
        expect(await start(mounted)).toEqual({
          code: 0,
          stdout: 'the app runs well\n',
          stderr: `evenkeel: not loaded, the app runs without it: ${mounted}/register.cjs: MODULE_NOT_FOUND\n`,
        });
      }
    });
  });

  test('in a pod, fetch and http of an app without dependencies reach every pod of a Service', async () => {
    const [world, pods] = await Promise.all([DiscoveryWorld.create(), Pods.start(3)]);
    try {
      const ports = [{ name: 'http', port: 8080 }];
      world.dns.kubernetes.set({ namespace: 'shop', name: 'orders', clusterIPs: ['127.0.0.1'], ports });
      world.api
        .service('shop', 'orders', { ports: [{ name: 'http', port: 8080, targetPort: 'http' }] })
        .setPods(pods.all.map(({ name, port }) => ({ name, address: '127.0.0.1', ports: { http: port } })));
      const config = join(folder, 'config.cjs');
      // Nothing listens on the Service's address here: an API server that is late must not be given up for DNS.
      const discovery = JSON.stringify(world.options({ allowAddresses: ['loopback'], sliceGraceMs: 60_000 }));
      await writeFile(config, `module.exports = { discovery: ${discovery} };\n`);
      await copyFile(join(root, 'test/integration/register/support/app.mjs'), join(folder, 'app.mjs'));
      for (const client of ['fetch', 'http.get']) {
        const env = {
          KUBERNETES_SERVICE_HOST: '127.0.0.1',
          KUBERNETES_SERVICE_PORT: String(world.api.port),
          EVENKEEL_CONFIG: config,
        };
        const app = ['app.mjs', client, 'http://orders.shop:8080/', 'until 3 pods'];
        const args = ['--require', join(image, 'register.cjs'), ...app];
        const { stdout, stderr } = await runProgram(process.execPath, args, folder, env);
        expect(stderr).toBe('');
        const { pods: seen, failed } = JSON.parse(stdout) as { pods: object; failed: object };
        expect({ failed, pods: Object.keys(seen).length }, client).toEqual({ failed: {}, pods: 3 });
      }
    } finally {
      await pods[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    }
  });

  test('the manifests name the version of the package', async () => {
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    for (const file of ['inject/policy.yaml', 'init-container/patch.yaml']) {
      expect(await readFile(join(root, 'deploy', file), 'utf8')).toContain(`evenkeel:${version}`);
    }
  });
});
