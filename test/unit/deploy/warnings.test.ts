import { describe, expect, it } from 'vitest';
import { admit, type Container, type Pod, warningBinding, warningPolicy, warningsFor } from './admission.js';

const enabled = { 'evenkeel.dev/inject': 'enabled' };
const pod = (
  metadata: Pod['metadata'],
  containers: readonly Container[] = [{ name: 'app' }],
): Pod & { kind: 'Pod' } => ({
  kind: 'Pod',
  metadata,
  spec: { containers },
});
const deployment = (labels: object, template: Pod): object => ({
  kind: 'Deployment',
  metadata: { labels },
  spec: { template },
});

describe('the warnings beside the injection policy', () => {
  it('refuse nothing', () => {
    expect(warningBinding.spec).toEqual({ policyName: warningPolicy.metadata.name, validationActions: ['Warn'] });
    expect(warningPolicy.spec.failurePolicy).toBe('Ignore');
  });

  it.each([
    ['a pod without labels', pod({})],
    ['a pod with the label', pod({ labels: enabled })],
    ['a pod that was injected', { kind: 'Pod', ...admit(pod({ labels: enabled })) }],
    ['a pod that is left out', pod({ labels: { 'evenkeel.dev/inject': 'disabled' } })],
    ['a pod with the annotation', pod({ labels: enabled, annotations: { 'evenkeel.dev/containers': ' app' } })],
    ['a namespace with the label', { kind: 'Namespace', metadata: { labels: enabled }, spec: {} }],
    ['a Deployment whose template has the label', deployment(enabled, pod({ labels: enabled }))],
    [
      'a Deployment that the kustomize component patched',
      deployment(enabled, { metadata: {}, spec: { containers: [{ name: 'app' }], volumes: [{ name: 'evenkeel' }] } }),
    ],
    ['a template without metadata', { kind: 'Job', metadata: {}, spec: { template: { spec: { containers: [] } } } }],
    ['a mount of its own at /evenkeel, without the label', pod({}, [mountedAt('/evenkeel')])],
  ])('are not given for %s', (_title, object) => {
    expect(warningsFor(object)).toEqual([]);
  });

  it.each([
    ['another value', pod({ labels: { 'evenkeel.dev/inject': 'true' } }), 'neither enabled nor disabled'],
    [
      'another value at a namespace',
      { kind: 'Namespace', metadata: { labels: { 'evenkeel.dev/inject': 'yes' } }, spec: {} },
      'neither enabled nor disabled',
    ],
    [
      'another value in a CronJob',
      {
        kind: 'CronJob',
        metadata: {},
        spec: { jobTemplate: { spec: { template: pod({ labels: { 'evenkeel.dev/inject': '' } }) } } },
      },
      'neither enabled nor disabled',
    ],
    ['a misspelt label', pod({ labels: { 'evenkeel.dev/injct': 'enabled' } }), 'a label that evenkeel does not know'],
    ['a misspelt domain', pod({ labels: { 'evenkeel.io/inject': 'enabled' } }), 'a label that evenkeel does not know'],
    [
      'a misspelt annotation',
      pod({ labels: enabled, annotations: { 'evenkeel.dev/container': 'app' } }),
      'an annotation that evenkeel does not know',
    ],
    [
      'a container that is not there',
      pod({ labels: enabled, annotations: { 'evenkeel.dev/containers': 'app,wroker' } }),
      'names a container that the pod does not have',
    ],
    ['the label on the Deployment alone', deployment(enabled, pod({})), 'belongs into the labels of the pod template'],
    [
      'a mount of its own',
      deployment({}, pod({ labels: enabled }, [mountedAt('/evenkeel')])),
      'a container with a mount of its own',
    ],
  ])('are given for %s', (_title, object, expected) => {
    expect(warningsFor(object)).toEqual([expect.stringContaining(expected)]);
  });
});

function mountedAt(mountPath: string): Container {
  return { name: 'app', volumeMounts: [{ name: 'data', mountPath }] };
}
