import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { textOf } from '../../support/docs-page.js';

type Value = Readonly<Record<string, unknown>>;

interface Source {
  /** `examples/grpc/manifests/orders.yaml`, or `docs/guide/rbac.md, block 1`. */
  readonly name: string;
  readonly documents: readonly unknown[];
}

const root = new URL('../../../', import.meta.url);

function filesBelow(folder: string, extension: string): string[] {
  return readdirSync(new URL(`${folder}/`, root), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(extension) && !path.includes('node_modules'))
    .map((path) => `${folder}/${path}`)
    .sort();
}

/** Throws for what is no YAML, keys given twice included. */
function parsed(name: string, text: string): Source {
  const documents = parseAllDocuments(text, { uniqueKeys: true });
  if ('empty' in documents) throw new Error(`${name} is empty`);
  for (const { errors, warnings } of documents) {
    const [error] = [...errors, ...warnings];
    if (error !== undefined) throw new Error(`${name}: ${error.message}`);
  }
  return { name, documents: documents.map((document) => document.toJS() as unknown) };
}

const manifests = [...filesBelow('examples', '.yaml'), ...filesBelow('examples', '.yml')].map((path) =>
  parsed(path, textOf(path)),
);
const pages = [...filesBelow('docs', '.md'), ...filesBelow('examples', '.md'), 'README.md'];
const blocks = pages.flatMap((page) =>
  [...textOf(page).matchAll(/^```ya?ml\n(.*?)^```$/gms)].map(([, text = ''], index) =>
    parsed(`${page}, block ${index + 1}`, text),
  ),
);
const all = [...manifests, ...blocks];

/** Everything in `value` that has containers: pods, templates of pods, and parts of them that a page shows. */
function podSpecsIn(value: unknown): Value[] {
  if (typeof value !== 'object' || value === null) return [];
  const below = Object.values(value).flatMap(podSpecsIn);
  return 'containers' in value ? [value as Value, ...below] : below;
}

const podSpecs = all.flatMap(({ name, documents }) => documents.flatMap(podSpecsIn).map((spec) => ({ name, spec })));
const objects = manifests.flatMap(({ name, documents }) =>
  documents.map((document) => ({ name, object: document as { kind: string; metadata: Record<string, string> } })),
);

describe('YAML in docs and examples', () => {
  it('exists', () => {
    expect(manifests.length).toBeGreaterThanOrEqual(5);
    expect(blocks.length).toBeGreaterThanOrEqual(4);
    expect(podSpecs.length).toBeGreaterThanOrEqual(5);
  });

  // https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
  it.each(podSpecs)('runs pods that the pod security standard "restricted" admits: $name', ({ spec }) => {
    const { hostNetwork, hostPID, hostIPC, securityContext } = spec;
    expect([hostNetwork, hostPID, hostIPC]).toEqual([undefined, undefined, undefined]);
    expect(securityContext).toEqual({
      runAsNonRoot: true,
      // A name, such as that of USER in an image, does not prove to the kubelet that it is not root.
      runAsUser: expect.toSatisfy((user) => Number.isInteger(user) && user > 0),
      seccompProfile: { type: 'RuntimeDefault' },
    });
    for (const containers of [spec.containers, spec.initContainers ?? []] as (readonly Value[])[]) {
      for (const container of containers) {
        expect(container.securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.securityContext).not.toHaveProperty('privileged');
        expect(container.securityContext).not.toHaveProperty('runAsUser');
      }
    }
  });

  it('makes namespaces that demand it', () => {
    const namespaces = objects.filter(({ object }) => object.kind === 'Namespace');
    expect(namespaces.length).toBeGreaterThan(0);
    for (const { object } of namespaces) {
      expect(object.metadata.labels).toEqual({ 'pod-security.kubernetes.io/enforce': 'restricted' });
    }
  });

  it('in one example overwrites nothing in another: the same name means the same thing', () => {
    const seen = new Map<string, { name: string; object: object }>();
    for (const { name, object } of objects) {
      const id = `${object.kind} ${object.metadata.namespace ?? ''}/${object.metadata.name}`;
      const earlier = seen.get(id);
      if (earlier !== undefined) expect(object, `${id} of ${name} and ${earlier.name}`).toEqual(earlier.object);
      seen.set(id, { name, object });
    }
  });

  it('selects no pods of another example', () => {
    const templates = objects.flatMap(({ name, object }) => {
      const spec = (object as { spec?: { template?: { metadata: { labels: Value } } } }).spec;
      return spec?.template === undefined ? [] : [{ name, labels: spec.template.metadata.labels }];
    });
    for (const { name, object } of objects.filter(({ object }) => object.kind === 'Service')) {
      const { selector } = (object as unknown as { spec: { selector: Value } }).spec;
      const selected = templates.filter(({ labels }) =>
        Object.entries(selector).every(([label, value]) => labels[label] === value),
      );
      expect(new Set(selected.map((template) => template.name)), `${object.metadata.name} of ${name}`).toEqual(
        new Set([name]),
      );
    }
  });
});
