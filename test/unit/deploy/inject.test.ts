import { describe, expect, it } from 'vitest';
import { admit, bindings, type Container, type EnvVar, type Pod, policy } from './admission.js';

const label = { 'evenkeel.dev/inject': 'enabled' };
const flag = '--require=/evenkeel-loader/register.cjs';
const nodeName: EnvVar = { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };
const zone: EnvVar = {
  name: 'TOPOLOGY_ZONE',
  valueFrom: { fieldRef: { fieldPath: "metadata.labels['topology.kubernetes.io/zone']" } },
};

function podWith(containers: readonly Container[], metadata: Pod['metadata'] = { labels: label }): Pod {
  return { metadata, spec: { containers } };
}

/** NODE_OPTIONS of each container after admission. */
const optionsOf = (pod: Pod): readonly (string | undefined)[] =>
  pod.spec.containers.map(({ env }) => env?.find(({ name }) => name === 'NODE_OPTIONS')?.value);

const isInjected = (pod: Pod): boolean => pod.spec.volumes?.some(({ name }) => name === 'evenkeel') ?? false;

describe('the injection policy', () => {
  it('adds two volumes, their mounts and --require to a pod with the label', () => {
    const pod = admit(podWith([{ name: 'app' }]));
    const fieldRef = { fieldPath: "metadata.annotations['evenkeel.dev/loader']" };
    expect(pod.metadata.annotations).toEqual({ 'evenkeel.dev/loader': expect.any(String) });
    expect(pod.spec.volumes).toEqual([
      { name: 'evenkeel-loader', downwardAPI: { items: [{ path: 'register.cjs', fieldRef }] } },
      { name: 'evenkeel', image: { reference: expect.any(String), pullPolicy: 'IfNotPresent' } },
    ]);
    expect(pod.spec.containers).toEqual([
      {
        name: 'app',
        volumeMounts: [
          { name: 'evenkeel', mountPath: '/evenkeel', readOnly: true },
          { name: 'evenkeel-loader', mountPath: '/evenkeel-loader', readOnly: true },
        ],
        env: [{ name: 'NODE_OPTIONS', value: flag }, nodeName, zone],
      },
    ]);
  });

  it('keeps the options, variables, mounts and volumes of the app', () => {
    const env: EnvVar[] = [
      { name: 'PORT', value: '80' },
      { name: 'NODE_OPTIONS', value: '--max-old-space-size=512' },
      { name: 'KEY', valueFrom: { secretKeyRef: {} } },
    ];
    const before = podWith([{ name: 'app', env, volumeMounts: [{ name: 'data', mountPath: '/data' }] }]);
    const pod = admit({ ...before, spec: { ...before.spec, volumes: [{ name: 'data', emptyDir: {} }] } });
    expect(pod.spec.volumes?.map(({ name }) => name)).toEqual(['data', 'evenkeel-loader', 'evenkeel']);
    const mounts = pod.spec.containers[0]?.volumeMounts?.map(({ name }) => name);
    expect(mounts).toEqual(['data', 'evenkeel', 'evenkeel-loader']);
    expect(pod.spec.containers[0]?.env).toEqual([
      env[0],
      { name: 'NODE_OPTIONS', value: `--max-old-space-size=512 ${flag}` },
      env[2],
      nodeName,
      zone,
    ]);
  });

  it('keeps a NODE_NAME or TOPOLOGY_ZONE of the app', () => {
    const own = { name: 'NODE_NAME', value: 'erlang@host' };
    const pod = admit(
      podWith([
        { name: 'app', env: [own] },
        { name: 'worker', env: [{ name: 'TOPOLOGY_ZONE' }] },
      ]),
    );
    expect(pod.spec.containers[0]?.env).toEqual([own, { name: 'NODE_OPTIONS', value: flag }, zone]);
    expect(pod.spec.containers[1]?.env?.map(({ name }) => name)).toEqual([
      'TOPOLOGY_ZONE',
      'NODE_OPTIONS',
      'NODE_NAME',
    ]);
  });

  it('adds no variable to a container that it does not inject, and only the loader to what a pod has from others', () => {
    const annotations = { 'evenkeel.dev/containers': 'app', owner: 'shop' };
    const pod = admit(podWith([{ name: 'nginx' }, { name: 'app' }], { labels: label, annotations }));
    expect(pod.spec.containers[0]).toEqual({ name: 'nginx' });
    expect(pod.metadata.annotations).toEqual({ ...annotations, 'evenkeel.dev/loader': expect.any(String) });
  });

  it('treats an empty NODE_OPTIONS as none', () => {
    expect(optionsOf(admit(podWith([{ name: 'app', env: [{ name: 'NODE_OPTIONS', value: '' }] }])))).toEqual([flag]);
    expect(optionsOf(admit(podWith([{ name: 'app', env: [{ name: 'NODE_OPTIONS' }] }])))).toEqual([flag]);
  });

  it('skips a container whose NODE_OPTIONS comes from valueFrom: a value beside it makes a pod invalid', () => {
    const fromMap: EnvVar = { name: 'NODE_OPTIONS', valueFrom: { configMapKeyRef: {} } };
    const pod = admit(podWith([{ name: 'app', env: [fromMap] }, { name: 'worker' }]));
    expect(pod.spec.containers[0]).toEqual({ name: 'app', env: [fromMap] });
    expect(optionsOf(pod)).toEqual([undefined, flag]);
    const alone = podWith([{ name: 'app', env: [fromMap] }], {
      labels: label,
      annotations: { 'evenkeel.dev/containers': 'app' },
    });
    expect(admit(alone)).toEqual(alone);
  });

  it('skips a container with envFrom, which may contain a NODE_OPTIONS, unless the annotation names it', () => {
    const containers = [{ name: 'app', envFrom: [{ configMapRef: {} }] }];
    expect(isInjected(admit(podWith(containers)))).toBe(false);
    const named = podWith(containers, { labels: label, annotations: { 'evenkeel.dev/containers': 'app' } });
    expect(optionsOf(admit(named))).toEqual([flag]);
  });

  it.each(['/evenkeel', '/evenkeel/', '/evenkeel-loader', '/evenkeel-loader/'])(
    'skips a container with a mount of its own at %s: two at one path make a pod invalid',
    (mountPath) => {
      const own: Container = { name: 'app', volumeMounts: [{ name: 'data', mountPath }] };
      const pod = admit(podWith([own, { name: 'worker' }]));
      expect(pod.spec.containers[0]).toEqual(own);
      expect(optionsOf(pod)).toEqual([undefined, flag]);
      const named = podWith([own], { labels: label, annotations: { 'evenkeel.dev/containers': 'app' } });
      expect(admit(named)).toEqual(named);
    },
  );

  it('changes only the containers that the annotation names', () => {
    const annotations = { 'evenkeel.dev/containers': 'app, worker' };
    const pod = podWith([{ name: 'app' }, { name: 'nginx' }, { name: 'worker' }], { labels: label, annotations });
    expect(optionsOf(admit(pod))).toEqual([flag, undefined, flag]);
  });

  it('leaves init containers alone', () => {
    const before = podWith([{ name: 'app' }]);
    const pod = admit({ ...before, spec: { ...before.spec, initContainers: [{ name: 'migrate' }] } });
    expect(pod.spec.initContainers).toEqual([{ name: 'migrate' }]);
    expect(isInjected(pod)).toBe(true);
  });

  it('changes nothing the second time', () => {
    const once = admit(podWith([{ name: 'app' }]));
    expect(admit(once)).toEqual(once);
  });

  it.each([
    ['no label', {}, {}, false],
    ['the label', label, {}, true],
    ['the label of its namespace', {}, label, true],
    ['both labels', label, label, true],
    ['disabled in a namespace that is enabled', { 'evenkeel.dev/inject': 'disabled' }, label, false],
    ['the label in a namespace that is disabled', label, { 'evenkeel.dev/inject': 'disabled' }, true],
  ] as const)('applies to a pod with %s', (_title, labels, namespace, expected) => {
    expect(isInjected(admit(podWith([{ name: 'app' }], { labels }), namespace))).toBe(expected);
  });

  it('two bindings never select the same pod', () => {
    const pod = admit(podWith([{ name: 'app' }], { labels: label }), label);
    expect(optionsOf(pod)).toEqual([flag]);
    expect(bindings.map(({ spec }) => spec.policyName)).toEqual([policy.metadata.name, policy.metadata.name]);
  });

  it.each([
    ['a proxy of Istio', podWith([{ name: 'app' }, { name: 'istio-proxy' }])],
    ['the label of Istio', podWith([{ name: 'app' }], { labels: { ...label, 'sidecar.istio.io/inject': 'true' } })],
    ['a revision of Istio', podWith([{ name: 'app' }], { labels: { ...label, 'istio.io/rev': 'canary' } })],
    ['an ambient mesh', podWith([{ name: 'app' }], { labels: { ...label, 'istio.io/dataplane-mode': 'ambient' } })],
    [
      'the annotation of Linkerd',
      podWith([{ name: 'app' }], { labels: label, annotations: { 'linkerd.io/inject': 'enabled' } }),
    ],
    ['Windows', { metadata: { labels: label }, spec: { containers: [{ name: 'app' }], os: { name: 'windows' } } }],
  ] as const)('leaves a pod with %s unchanged', (_title, pod) => {
    expect(admit(pod)).toEqual(pod);
  });

  it('injects where a mesh is switched off by annotation', () => {
    const annotations = { 'linkerd.io/inject': 'disabled' };
    const labels = { ...label, 'sidecar.istio.io/inject': 'false', 'istio.io/dataplane-mode': 'none' };
    expect(isInjected(admit(podWith([{ name: 'app' }], { labels, annotations })))).toBe(true);
  });

  it('changes nothing where no container may be changed', () => {
    const pod = podWith([{ name: 'app', envFrom: [{}] }]);
    expect(admit(pod)).toEqual(pod);
  });
});
