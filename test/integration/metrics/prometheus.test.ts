import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { type Balancer, createBalancer, resolverFrom, staticEndpoints } from 'evenkeel';
import { prometheusText } from 'evenkeel/metrics';
import { FakeTransport } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { request } from 'undici';
import { expect, it } from 'vitest';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';
import { closedAfterEach } from '../../support/opened.js';
import { Pod } from '../../support/pods/pods.js';
import { root } from '../../support/programs/programs.js';
import { isMissing, SystemServer, titled } from '../../support/programs/programs-of-debian.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

const alerts = join(root, 'docs/operating/alerts.yaml');
const skip = isMissing('Prometheus');

it.skipIf(skip)(titled('Prometheus', 'promtool accepts the rules, and each alert fires when it should'), () => {
  for (const args of [
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts.test.yaml'],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: dirname(alerts), encoding: 'utf8' });
    expect(status, stdout + stderr).toBe(0);
  }
});

/** The page of an application that Prometheus reads. */
async function metricsPage(): Promise<number> {
  const server: Server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/plain; version=0.0.4');
    response.end(prometheusText({ perEndpoint: 10 }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push({
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
  return (server.address() as AddressInfo).port;
}

/** A Prometheus that reads the page five times a second, with the rules of the docs, which do not wait. */
async function prometheus(page: number) {
  const rules = (await readFile(alerts, 'utf8')).replaceAll(/^ {8}for: .*$/gm, '        for: 0s');
  const server = await SystemServer.start(
    'Prometheus',
    `global: { scrape_interval: 200ms, evaluation_interval: 200ms }
rule_files: ['rules-of-docs.yaml']
scrape_configs:
  - { job_name: app, static_configs: [{ targets: ['127.0.0.1:${page}'] }] }
`,
    { 'rules-of-docs.yaml': rules },
  );
  open.push(server);
  const get = async (path: string): Promise<unknown> => {
    const { body } = await request(`http://127.0.0.1:${server.endpoint.port}/api/v1/${path}`);
    return ((await body.json()) as { data: unknown }).data;
  };
  return {
    /** The value of an expression; undefined while it has none. */
    async query(expression: string): Promise<number | undefined> {
      const { result } = (await get(`query?query=${encodeURIComponent(expression)}`)) as {
        result: { value: [number, string] }[];
      };
      return result[0] === undefined ? undefined : Number(result[0].value[1]);
    },
    /** Which alerts fire for a target. */
    async firing(target: string): Promise<string[]> {
      const { alerts: all } = (await get('alerts')) as {
        alerts: { state: string; labels: Record<string, string> }[];
      };
      const fires = all.filter(({ state, labels }) => state === 'firing' && labels.evenkeel_target === target);
      return fires.map(({ labels }) => String(labels.alertname)).sort();
    },
  };
}

it.skipIf(skip)(
  titled('Prometheus', 'a real Prometheus scrapes a client, and alerts on a slow pod and on missing permissions'),
  async () => {
    const pods = await Promise.all(['a', 'b', 'c', 'd'].map((name) => Pod.start({ name })));
    open.push(...pods);
    const [slow] = pods;
    await slow?.behave({ delayMs: 300 });
    const origin = 'http://orders.shop:8080';
    const target = 'orders.shop:8080';
    const orders = createDispatcher(origin, {
      resolver: { ...staticEndpoints(pods.map(({ endpoint }) => endpoint)), name: target },
    });
    open.push({ [Symbol.asyncDispose]: () => orders.close() });
    // A Service found by DNS, since nobody gave the client the Role.
    const world = await DiscoveryWorld.create();
    open.push(world);
    world.allow([]);
    world.dns.kubernetes.set({
      namespace: 'shop',
      name: 'stock',
      pods: [{ address: '10.0.0.1' }],
      ports: [{ name: 'http', port: 8080 }],
    });
    const stock: Balancer<unknown> = createBalancer({
      resolver: resolverFrom('stock.shop:http', world.options()),
      transport: new FakeTransport(),
    });
    open.push({ [Symbol.asyncDispose]: () => stock.close({ signal: AbortSignal.abort() }) });
    const watched = await prometheus(await metricsPage());
    let failed = 0;
    const ask = async (): Promise<void> => {
      const { statusCode, body } = await request(`${origin}/`, { dispatcher: orders });
      await body.dump();
      if (statusCode !== 200) failed++;
    };
    await until('the alerts', async () => {
      await Promise.all(Array.from({ length: 10 }, ask));
      return (await watched.firing(target)).includes('EvenkeelPodAvoided');
    });
    expect(failed).toBe(0);
    expect(await watched.query(`sum(evenkeel_endpoints{evenkeel_target="${target}",evenkeel_state="ready"})`)).toBe(4);
    expect(await watched.query(`evenkeel_share_least_ratio{evenkeel_target="${target}"}`)).toBeLessThan(0.3);
    const slowest = `bottomk(1, evenkeel_endpoint_picks_total{evenkeel_endpoint="127.0.0.1:${slow?.endpoint.port}"})`;
    expect(await watched.query(slowest)).toBeGreaterThan(0);
    // Durations are measured from the first look of Prometheus on.
    const p50 = `histogram_quantile(0.5, evenkeel_attempt_duration_seconds_bucket{evenkeel_target="${target}",evenkeel_outcome="success"})`;
    await until('the median', async () => {
      await ask();
      return Number(await watched.query(p50)) > 0;
    });
    await until('the alert of discovery', async () =>
      (await watched.firing('stock.shop:http')).includes('EvenkeelDiscoveryDegraded'),
    );
  },
);
