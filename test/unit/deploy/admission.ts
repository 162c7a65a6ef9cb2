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
    readonly volumes?: readonly Volume[];
    readonly os?: { readonly name: string };
  };
}

export interface Volume {
  readonly name: string;
  readonly image?: object;
  readonly emptyDir?: object;
  readonly downwardAPI?: object;
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

interface Mutation {
  readonly applyConfiguration?: { readonly expression: string };
  readonly jsonPatch?: { readonly expression: string };
}

interface JsonPatch {
  readonly op: string;
  readonly path: string;
  readonly value: unknown;
}

interface Policy {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly matchConditions: readonly Named[];
    readonly variables: readonly Named[];
    readonly mutations: readonly Mutation[];
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
  expression.replace(/\b(?:JSONPatch|Object(?:\.\w+)*)\{/g, '{').replace(/\b(\w+): /g, '"$1": ');

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
  return policy.spec.mutations.reduce((mutated, { applyConfiguration, jsonPatch }) => {
    const expression = untyped((applyConfiguration ?? jsonPatch)?.expression as string);
    // Each mutation sees what those before it made, in `object` and in the variables, too.
    const result = environment.evaluate(expression, { object: mutated, variables: variablesOf(policy, mutated) });
    return (jsonPatch === undefined ? merge(mutated, result) : patch(mutated, result as JsonPatch[])) as Pod;
  }, object);
}

function variablesOf({ spec }: { readonly spec: { readonly variables: readonly Named[] } }, object: object): object {
  const variables: Record<string, unknown> = {};
  for (const { name, expression } of spec.variables) {
    variables[name] = environment.evaluate(expression, { object, variables });
  }
  return variables;
}

/** Applies JSON patches of the one operation that the policy uses. Like the API server, it does not make what a path leads through. */
function patch(object: object, patches: readonly JsonPatch[]): object {
  const patched = structuredClone(object);
  for (const { op, path, value } of patches) {
    if (op !== 'add') throw new Error(`the test does not know the operation ${op}`);
    const steps = path.split('/').slice(1);
    const last = steps.pop() as string;
    let parent: unknown = patched;
    for (const step of steps) parent = (parent as Record<string, unknown>)[step];
    if (parent === undefined) throw new Error(`nothing is at the parent of ${path}`);
    if (Array.isArray(parent) && last === '-') parent.push(value);
    else (parent as Record<string, unknown>)[last] = value;
  }
  return patched;
}

interface WarningPolicy {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly failurePolicy: string;
    readonly variables: readonly Named[];
    readonly validations: readonly { readonly expression: string; readonly message: string }[];
  };
}

interface WarningBinding {
  readonly spec: { readonly policyName: string; readonly validationActions: readonly string[] };
}

const warnings = documentsOf<object>('warnings.yaml');
export const warningPolicy: WarningPolicy = warnings[0] as WarningPolicy;
export const warningBinding: WarningBinding = warnings[1] as WarningBinding;

/** The warnings that whoever writes this object gets. */
export function warningsFor(object: object): readonly string[] {
  const variables = variablesOf(warningPolicy, object);
  return warningPolicy.spec.validations
    .filter(({ expression }) => environment.evaluate(expression, { object, variables }) !== true)
    .map(({ message }) => message);
}
