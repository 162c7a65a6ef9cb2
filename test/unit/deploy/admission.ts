import { readFileSync } from 'node:fs';
import { Environment } from '@marcbachmann/cel-js';
import { parseAllDocuments } from 'yaml';

/** What a test says of a container. */
export interface Container {
  readonly name: string;
  readonly env?: readonly EnvVar[];
  readonly envFrom?: readonly object[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: object;
}

export interface Pod {
  readonly metadata: { readonly labels?: Labels; readonly annotations?: Labels };
  readonly spec: {
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
    readonly volumes?: readonly { readonly name: string; readonly image?: object; readonly emptyDir?: object }[];
    readonly os?: { readonly name: string };
  };
}

type Labels = Readonly<Record<string, string>>;

interface Selector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: string }[];
}

interface Named {
  readonly name: string;
  readonly expression: string;
}

interface Policy {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly matchConditions: readonly Named[];
    readonly variables: readonly Named[];
    readonly mutations: readonly { readonly applyConfiguration: { readonly expression: string } }[];
  };
}

interface Binding {
  readonly spec: {
    readonly policyName: string;
    readonly matchResources: { readonly namespaceSelector?: Selector; readonly objectSelector?: Selector };
  };
}

const documentsOf = <T>(file: string): T[] =>
  parseAllDocuments(readFileSync(new URL(`../../../deploy/inject/${file}`, import.meta.url), 'utf8')).map(
    (document) => document.toJS() as T,
  );

export const policy: Policy = documentsOf<Policy>('policy.yaml')[0] as Policy;
export const bindings: readonly Binding[] = documentsOf<Binding>('bindings.yaml');

const environment = new Environment({ unlistedVariablesAreDyn: true, homogeneousAggregateLiterals: false });

function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels): boolean {
  for (const { key, operator } of matchExpressions) {
    if (operator !== 'DoesNotExist') throw new Error(`the test does not know the operator ${operator}`);
    if (key in labels) return false;
  }
  return Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
}

/**
 * The CEL library knows no typed objects (`Object.spec{name: …}`), which the API server checks against the pod's
 * schema: they become maps here. Everything else of an expression is evaluated as it stands in the manifest.
 */
const untyped = (expression: string): string =>
  expression.replace(/\bObject(?:\.\w+)*\{/g, '{').replace(/\b(\w+): /g, '"$1": ');

/** Merges lists of named things as the API server does: by name (mounts by path), the rest stays. */
function merge(before: unknown, applied: unknown): unknown {
  if (Array.isArray(applied)) {
    const merged = [...((before as Keyed[] | undefined) ?? [])];
    for (const item of applied as Keyed[]) {
      const at = merged.findIndex((one) => keyOf(one) === keyOf(item));
      if (at < 0) merged.push(item);
      else merged[at] = merge(merged[at], item) as Keyed;
    }
    return merged;
  }
  if (typeof applied !== 'object' || applied === null) return applied;
  const result: Record<string, unknown> = { ...(before as object | undefined) };
  for (const [name, value] of Object.entries(applied)) result[name] = merge(result[name], value);
  return result;
}

interface Keyed {
  readonly name: string;
  readonly mountPath?: string;
}

const keyOf = ({ mountPath, name }: Keyed): string => mountPath ?? name;

/** What the API server makes of a new pod, in a namespace with these labels, under the manifests of `deploy/inject`. */
export function admit(pod: Pod, namespace: Labels = {}): Pod {
  let admitted = pod;
  for (const { spec } of bindings) {
    const { namespaceSelector = {}, objectSelector = {} } = spec.matchResources;
    const isBound = selects(namespaceSelector, namespace) && selects(objectSelector, pod.metadata.labels ?? {});
    if (isBound) admitted = mutate(admitted);
  }
  return admitted;
}

function mutate(object: Pod): Pod {
  for (const { expression } of policy.spec.matchConditions) {
    if (environment.evaluate(expression, { object }) !== true) return object;
  }
  const variables: Record<string, unknown> = {};
  for (const { name, expression } of policy.spec.variables) {
    variables[name] = environment.evaluate(expression, { object, variables });
  }
  let mutated: unknown = object;
  for (const { applyConfiguration } of policy.spec.mutations) {
    mutated = merge(mutated, environment.evaluate(untyped(applyConfiguration.expression), { object, variables }));
  }
  return mutated as Pod;
}
