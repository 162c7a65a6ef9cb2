import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { DiscoveryV1Api, KubeConfig, type V1EndpointSlice, Watch } from '@kubernetes/client-node';
import { createBalancer } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { FakeTransport } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { type DoctorCommand, parseCommandLine } from '../../../src/cli/command-line.js';
import { doctor } from '../../../src/cli/doctor.js';
import type { ApiServer } from '../../servers/index.js';
import { sliceObject } from '../../support/fixtures/endpoint-cases.js';
import { freePort } from '../../support/programs/free-port.js';
import { until } from '../../support/until.js';
import { atEnd, cleanUpAfterEach, openApi, WatchedService } from './harness.js';

cleanUpAfterEach();

const base64 = (text: string): string => Buffer.from(text).toString('base64');

function configFor(api: ApiServer): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: api.url, 'certificate-authority-data': base64(api.ca as string) } }],
    users: [{ name: 'me', user: { token: 'secret' } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'me', namespace: 'shop' } }],
  });
}

describe('@kubernetes/client-node', () => {
  it('works with our API server: an independent client lists and watches it', async () => {
    const api = await openApi({ tls: true, tokens: { secret: 'all' } });
    api.slices.put(sliceObject('s1', 'aR bN'));
    const config = new KubeConfig();
    config.loadFromString(configFor(api));
    const list = await config.makeApiClient(DiscoveryV1Api).listNamespacedEndpointSlice({ namespace: 'shop' });
    expect(list.items.map((slice) => slice.endpoints?.map((endpoint) => endpoint.conditions?.ready))).toEqual([
      [true, false],
    ]);

    const events: string[] = [];
    let ended = false;
    const controller = await new Watch(config).watch(
      '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices',
      { resourceVersion: list.metadata?.resourceVersion },
      (type: string, slice: V1EndpointSlice) =>
        events.push(`${type} ${slice.metadata?.name} ${slice.endpoints?.length}`),
      () => {
        ended = true;
      },
    );
    atEnd(() => controller.abort());
    api.slices.put(sliceObject('s1', 'aR'));
    api.slices.put(sliceObject('s2', 'bR cR'));
    api.slices.delete('s1', 'shop');
    await until('the events', () => events.length === 3);
    expect(events).toEqual(['MODIFIED s1 1', 'ADDED s2 2', 'DELETED s1 1']);
    api.disturb('end');
    await until('the end', () => ended);
  });

  it('provides the kubeconfig that it has loaded', async () => {
    const api = await openApi({ tls: true, tokens: { secret: 'all' } });
    api.slices.put(sliceObject('s1', 'aR bR'));
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromString(configFor(api));
    const service = new WatchedService(api, {
      port: 'http',
      apiServer: undefined as never,
      namespace: undefined as never,
      kubeConfig,
    });
    await service.sees('10.0.0.1:80 10.0.0.2:80');
    // One connection for the list and the watch, and the namespace is the context's.
    expect(api.requests.every(({ namespace }) => namespace === 'shop')).toBe(true);
    expect(api.counts.connections).toBe(1);
  });

  it('with a password in its URL: it appears in no error, event, snapshot, or output of doctor', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'evenkeel-kubeconfig-'));
    atEnd(() => rm(directory, { recursive: true }));
    const path = join(directory, 'config');
    const port = await freePort();
    const config = {
      'current-context': 'test',
      clusters: [{ name: 'test', cluster: { server: `https://user:hunter2@127.0.0.1:${port}` } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'me', namespace: 'shop' } }],
      users: [{ name: 'me', user: {} }],
    };
    await writeFile(path, JSON.stringify(config));
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromFile(path);
    const events: unknown[] = [];
    const balancer = createBalancer({
      resolver: endpointSlices({ service: 'orders', port: 'http', kubeConfig }),
      transport: new FakeTransport(),
      observer: {
        resolveFailed: (event) => events.push(event),
        warned: (event) => events.push(event),
      },
    });
    atEnd(() => balancer.close());
    await until('it failed', () => events.length > 0);
    const error: unknown = await balancer
      .acquire({ signal: AbortSignal.timeout(50) })
      .catch((thrown: unknown) => thrown);
    let printed = '';
    const command = parseCommandLine([
      'doctor',
      'orders.shop:http',
      '--kubeconfig',
      path,
      '--timeout',
      '2',
    ]) as DoctorCommand;
    for (const json of [false, true]) {
      const write = (text: string): void => {
        printed += text;
      };
      await doctor({ ...command, json }, { write, signal: new AbortController().signal });
    }
    expect(printed).toContain(`127.0.0.1:${port}`);
    const all = printed + inspect([events, error, balancer.snapshot()], { depth: 20, showHidden: true });
    expect(all).not.toContain('hunter2');
    expect(all).not.toContain(base64('user:hunter2'));
  });
});
