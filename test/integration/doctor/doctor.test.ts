import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ServiceController } from '../../../src/testing/servers/api-server-service.js';
import { DiscoveryWorld, reader } from '../../support/discovery-world.js';
import { asInDocs, type DoctorRun, RunningDoctor, startDoctor } from '../../support/doctor.js';
import { LoopbackPods } from '../../support/loopback-pods.js';
import { until } from '../../support/until.js';

const page = fileURLToPath(new URL('../../../docs/guide/doctor.md', import.meta.url));
/** Set to write what the program says now into the guide, in place of comparing. */
const rewrite = process.env.UPDATE_DOCS === '1';

let docs: string;
let world: DiscoveryWorld;
let pods: LoopbackPods;

beforeAll(async () => {
  docs = await readFile(page, 'utf8');
});
afterAll(async () => {
  if (rewrite) await writeFile(page, docs);
});
beforeEach(async () => {
  [world, pods] = await Promise.all([DiscoveryWorld.create(), LoopbackPods.start(3)]);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  await pods[Symbol.asyncDispose]();
});

/** A Service as API server and DNS both show it; the pods listen on `pods.port`. */
function service(kind: 'headless' | 'cluster-ip', ready: readonly boolean[] = [true, true, true]): ServiceController {
  const controller = world.api.service('shop', 'orders', {
    ports: [{ name: 'http', port: kind === 'headless' ? pods.port : 80, targetPort: pods.port }],
  });
  const object = world.api.services.get('orders', 'shop');
  if (object !== undefined) {
    const clusterIP = kind === 'headless' ? 'None' : '127.0.0.77';
    world.api.services.put({ ...object, spec: { ...object.spec, clusterIP } });
  }
  controller.setPods(
    ready.map((isReady, index) => ({
      name: `orders-${index}`,
      address: pods.addresses[index] as string,
      ready: isReady,
      zone: 'abc'[index] as string,
    })),
  );
  const shown = ready.map((isReady, index) => ({ address: pods.addresses[index] as string, ready: isReady }));
  const common = { namespace: 'shop', name: 'orders', pods: shown };
  if (kind === 'headless') world.dns.kubernetes.set({ ...common, ports: [{ name: 'http', port: pods.port }] });
  else world.dns.kubernetes.set({ ...common, clusterIPs: ['127.0.0.77'], ports: [{ name: 'http', port: 80 }] });
  return controller;
}

const run = (target: string, ...more: readonly string[]): Promise<DoctorRun> => startDoctor(world, target, more).ended;

/** Compares with the block under `<!-- doctor: name -->` in the guide. */
function matchesDocs(name: string, { stdout, stderr }: DoctorRun): void {
  expect(stderr).toBe('');
  const shown = asInDocs(stdout, world, pods).trimEnd();
  const block = new RegExp(`(<!-- doctor: ${name} -->\n\n\`\`\`text\n)([\\s\\S]*?)(\n\`\`\`\n)`);
  const found = block.exec(docs);
  if (found === null) throw new Error(`docs/guide/doctor.md has no block "${name}"`);
  if (rewrite) docs = docs.replace(block, (_all, before, _old, after) => `${before}${shown}${after}`);
  else expect(shown).toBe(found[2]);
}

describe('evenkeel doctor', () => {
  it('all is well: 0', async () => {
    service('cluster-ip');
    const result = await run('orders.shop:http');
    expect(result.code).toBe(0);
    matchesDocs('fine', result);
  });

  it('no permission, headless Service: 1, with the manifest', async () => {
    world.allow([]);
    service('headless');
    const result = await run('orders.shop:http');
    expect(result.code).toBe(1);
    matchesDocs('no-permission', result);
  });

  it('no permission, cluster IP: 1', async () => {
    world.allow([]);
    service('cluster-ip');
    const result = await run('orders.shop:80', '--no-connect');
    expect(result.code).toBe(1);
    matchesDocs('cluster-ip', result);
  });

  it('one verb missing: 1', async () => {
    world.allow([{ namespace: 'shop', verbs: ['list'], resources: ['endpointslices'] }]);
    service('headless');
    const result = await run('orders.shop:http');
    expect(result.code).toBe(1);
    matchesDocs('no-watch', result);
  });

  it('no such Service: 2', async () => {
    const result = await run('odrers.shop:http');
    expect(result.code).toBe(2);
    matchesDocs('no-service', result);
  });

  it('no pod ready: 2', async () => {
    service('headless', [false, false]);
    const result = await run('orders.shop:http');
    expect(result.code).toBe(2);
    matchesDocs('not-ready', result);
  });

  it('no such port: 2', async () => {
    service('cluster-ip');
    const result = await run('orders.shop:htttp');
    expect(result.code).toBe(2);
    matchesDocs('no-port', result);
  });

  it('a port number the Service does not have: 2, with those it has', async () => {
    service('cluster-ip');
    const { code, stdout } = await run('orders.shop:8081', '--no-connect');
    expect(code).toBe(2);
    expect(stdout).toContain('It does not work: Service shop/orders has no port 8081; it has http 80\n');
    expect(stdout).toContain('Use a port the Service has: http 80');
    expect(stdout).not.toContain('network policy');
  });

  it('API server down, headless Service: 1', async () => {
    service('headless');
    await world.api.kill();
    const result = await run(`orders.shop:${pods.port}`);
    expect(result.code).toBe(1);
    matchesDocs('api-down', result);
  });

  it('DNS down: 0, for EndpointSlices do not need it', async () => {
    service('headless');
    await world.dns.stop();
    const result = await run('orders.shop:http');
    expect(result.code).toBe(0);
    matchesDocs('dns-down', result);
  });

  it('both down: 2', async () => {
    await world.api.kill();
    await world.dns.stop();
    const result = await run('orders.shop:http', '--timeout', '4');
    expect(result.code).toBe(2);
    matchesDocs('both-down', result);
  });

  it('pods that do not listen: 2', async () => {
    world.allow([]);
    service('headless');
    // Nobody listens on port 1 of the pods.
    const result = await run('orders.shop:1');
    expect(result.code).toBe(2);
    matchesDocs('wrong-port', result);
  });

  it('outside a pod: the name as it stands', async () => {
    service('headless');
    const target = `orders.shop.svc.cluster.local:${pods.port}`;
    const result = await new RunningDoctor([
      'doctor',
      target,
      '--dns-server',
      world.dns.address,
      '--allow-address',
      'loopback',
    ]).ended;
    expect(result.code).toBe(1);
    matchesDocs('laptop', result);
  });

  it('kubernetes: without permission: 2; with it: 0', async () => {
    world.allow([]);
    service('headless');
    const result = await run('kubernetes:orders.shop:http');
    expect(result.code).toBe(2);
    expect(result.stdout).toContain('It does not work: the API server does not let us list EndpointSlices');
    expect(result.stdout).toContain('kind: RoleBinding');
    world.allow(reader);
    expect((await run('kubernetes:orders.shop:http')).code).toBe(0);
  });

  it('dns: of a cluster IP: 1; of pods: 0', async () => {
    service('cluster-ip');
    const result = await run('dns:orders.shop:80', '--no-connect');
    expect(result.code).toBe(1);
    expect(result.stdout).toContain('DNS names only the cluster IP');
    service('headless');
    expect((await run(`dns:orders.shop:${pods.port}`)).code).toBe(0);
  });

  it('a pod that does not listen: 1', async () => {
    service('headless').putPod({ name: 'orders-9', address: '127.0.1.9' });
    const result = await run('orders.shop:http');
    expect(result.code).toBe(1);
    expect(result.stdout).toContain('1 of 4 endpoints accept no connection');
  });

  it('--json: the same for programs', async () => {
    service('cluster-ip', [true, false]);
    const { code, stdout } = await run('orders.shop:http', '--json');
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as Record<string, unknown>;
    expect(report).toMatchObject({
      target: 'orders.shop:http',
      outcome: 'fine',
      exitCode: 0,
      api: {
        list: { state: 'allowed' },
        watch: { state: 'allowed' },
        getService: { state: 'allowed' },
        slices: { count: 1, ports: ['http'], ready: 1, notReady: 1 },
      },
      dns: { kind: 'cluster-ip', a: { records: 1, ttl: 5 } },
      use: { mode: 'slices' },
      connections: [{ endpoint: `127.0.1.1:${pods.port}` }],
      todo: [],
    });
    expect((report.use as { endpoints: unknown[] }).endpoints).toHaveLength(2);
  });

  it('--watch: follows the endpoints until Ctrl-C', async () => {
    const controller = service('cluster-ip', [true]);
    const running = startDoctor(world, 'orders.shop:http', ['--watch', '--no-connect']);
    const said = (text: string): Promise<void> => until(text, () => running.stdout.includes(text));
    await said('+ 127.0.1.1');
    controller.putPod({ name: 'orders-1', address: '127.0.1.2' });
    await said('+ 127.0.1.2');
    controller.updatePod('orders-1', { ready: false });
    await said('~ 127.0.1.2');
    controller.removePod('orders-1');
    await said('- 127.0.1.2');
    await world.api.kill();
    await said('ECONNREFUSED');
    running.interrupt();
    const result = await running.ended;
    expect([result.code, result.stderr]).toEqual([0, '']);
  });

  it('Ctrl-C while it still asks ends it', async () => {
    world.api.failNext('any', { kind: 'hang' }, { times: 100 });
    world.dns.fault({ kind: 'silent' });
    const running = startDoctor(world, 'orders.shop:http', ['--timeout', '600']);
    await until('a question', () => world.dns.queries.length > 0);
    running.interrupt();
    expect((await running.ended).code).toBe(2);
  });

  it('--help, and what is wrong with a command line: 64', async () => {
    const help = await new RunningDoctor(['--help']).ended;
    expect(help.code).toBe(0);
    expect(docs).toContain(help.stdout.trimEnd());
    for (const [args, message] of [
      [['doctor'], 'doctor needs a target'],
      [['doctor', 'a.b:1', 'c.d:2'], 'doctor takes one target, got also "c.d:2"'],
      [['cure', 'a.b:1'], 'there is no command "cure"'],
      [['doctor', 'orders.shop'], 'the port is missing'],
      [['doctor', 'a.b:1', '--wach'], "Unknown option '--wach'"],
      [['doctor', 'a.b:1', '--timeout', 'soon'], '--timeout must be 1 to 600 seconds, got "soon"'],
      [['doctor', 'a.b:1', '--token-file', 'x'], '--token-file and --ca-file need --api-server'],
      [['doctor', 'a.b:1', '--allow-address', 'any'], 'allowAddresses must be'],
      [['doctor', 'a.b:1', '--dns-server', 'x'], 'servers must be'],
    ] as const) {
      const result = await new RunningDoctor(args).ended;
      expect([result.code, result.stdout]).toEqual([64, '']);
      expect(result.stderr).toContain(message);
    }
  });

  it('permission given: the manifest it prints is the one that helps', async () => {
    world.allow([]);
    service('headless');
    const before = await run('orders.shop:http');
    expect(before.stdout).toContain('resources: ["endpointslices"]\n    verbs: ["list", "watch"]');
    world.allow(reader);
    expect((await run('orders.shop:http')).code).toBe(0);
  });
});
