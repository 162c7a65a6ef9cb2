import { expect, it } from 'vitest';
import { serviceAccountIn, sliceReaderManifest } from '../../../src/resolver/rbac.js';

it('finds the service account in the message of the API server', () => {
  const message = 'endpointslices is forbidden: User "system:serviceaccount:web:front-end.v2" cannot list resource';
  expect(serviceAccountIn(message)).toEqual({ namespace: 'web', name: 'front-end.v2' });
  expect(serviceAccountIn('User "system:anonymous" cannot list')).toBeUndefined();
});

it('grants what the library needs, and no more', () => {
  const manifest = sliceReaderManifest('shop', { namespace: 'web', name: 'frontend' });
  const [role = '', binding = ''] = manifest.split('---\n');
  expect([...role.matchAll(/(?:apiGroups|resources|verbs): (.*)/g)].map((match) => match[1])).toEqual([
    '["discovery.k8s.io"]',
    '["endpointslices"]',
    '["list", "watch"]',
    '[""]',
    '["services"]',
    '["get"]',
  ]);
  expect(role).toContain('namespace: shop');
  expect(binding).toContain('kind: ServiceAccount\n    name: frontend\n    namespace: web');
  expect(binding).toContain(
    'roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: evenkeel-endpoints',
  );
});
