import { asError } from '../errors.js';
import type { ApiAccess } from '../resolver/kubernetes/api/api-access.js';
import { type ApiClient, HttpApiClient } from '../resolver/kubernetes/api/api-client.js';
import { type ApiFailure, failureOf } from '../resolver/kubernetes/api/api-failure.js';
import { explicitAccess } from '../resolver/kubernetes/api/explicit-access.js';
import { inClusterAccess, inClusterAvailable } from '../resolver/kubernetes/api/in-cluster.js';
import { kubeConfigAccess } from '../resolver/kubernetes/api/kube-config.js';
import { readFailure } from '../resolver/kubernetes/api/read-json.js';
import { parseSlice, serviceNameLabel } from '../resolver/kubernetes/slices/endpoint-slice.js';
import { readService } from '../resolver/kubernetes/slices/service-ports.js';
import { listSlices } from '../resolver/kubernetes/watch/slice-list.js';
import { type KubernetesSettings, noPod } from '../resolver/target.js';
import { systemClock } from '../runtime/clock.js';
import { type ApiFacts, noToken, type Permission } from './report.js';

const notAsked: Permission = { state: 'not-asked' };
const allowed: Permission = { state: 'allowed' };

interface Subject {
  readonly service: string;
  readonly namespace: string | undefined;
}

/** Tries every request that evenkeel may send to the API server, one verb at a time. Never rejects. */
export async function probeApi(settings: KubernetesSettings, subject: Subject, signal: AbortSignal): Promise<ApiFacts> {
  const unknown = { ...subject, list: notAsked, watch: notAsked, getService: notAsked };
  const { apiServer, credentials, kubeConfig, inCluster } = settings;
  let access: ApiAccess;
  try {
    if (apiServer !== undefined) access = explicitAccess(apiServer, credentials);
    else if (kubeConfig !== undefined) access = kubeConfigAccess(kubeConfig);
    else if (await inClusterAvailable(inCluster)) access = inClusterAccess(inCluster);
    else return { ...unknown, server: undefined, reason: process.env.KUBERNETES_SERVICE_HOST ? noToken : noPod };
  } catch (error) {
    return { ...unknown, server: undefined, reason: asError(error).message };
  }
  const session = access.open(systemClock);
  const client = new HttpApiClient(session, systemClock, true);
  try {
    const { server } = await session.target();
    const namespace = subject.namespace ?? (await session.namespace());
    if (namespace === undefined) return { ...unknown, server, reason: 'no namespace: name one with --namespace' };
    return { server, ...(await factsOf(client, { service: subject.service, namespace }, signal)) };
  } catch (error) {
    return { ...unknown, server: undefined, reason: asError(error).message };
  } finally {
    client.close();
  }
}

async function factsOf(
  client: ApiClient,
  subject: { readonly service: string; readonly namespace: string },
  signal: AbortSignal,
): Promise<Omit<ApiFacts, 'server' | 'reason'>> {
  const { service, namespace } = subject;
  const slicesPath = `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/endpointslices`;
  const selector = `${serviceNameLabel}=${service}`;
  const listed = await attempt(() => listSlices(client, slicesPath, selector, '0', signal));
  const list = verdictOf(listed);
  // The API server does not answer, so checking two more permissions would wait just as long for nothing.
  if (list.state === 'failed') return { ...subject, list, watch: notAsked, getService: notAsked };
  const watch = await attempt(async () => {
    const reply = await client.get({
      path: slicesPath,
      query: {
        labelSelector: selector,
        watch: 'true',
        resourceVersion: listed.value?.version ?? '0',
        timeoutSeconds: '1',
      },
      signal,
    });
    if (reply.status !== 200) throw await readFailure(reply);
    reply.discard();
  });
  const got = await attempt(() => readService(client, namespace, service, signal));
  const missing = got.failure?.kind === 'missing';
  return {
    ...subject,
    list,
    watch: verdictOf(watch),
    getService: missing ? allowed : verdictOf(got),
    ...(listed.value && { slices: count(listed.value.items, service) }),
    ...(missing ? { object: null } : got.value && { object: got.value }),
  };
}

function count(items: readonly unknown[], service: string): NonNullable<ApiFacts['slices']> {
  const slices = items.map((item) => parseSlice(item as never, service)).filter((slice) => slice !== undefined);
  const members = slices.flatMap((slice) => slice.members);
  // A pod counts once, although it is in one EndpointSlice per IP family.
  const pods = new Map(members.map((member) => [member.uid ?? member.address, member.conditions]));
  const states = [...pods.values()];
  const ready = states.filter((conditions) => conditions.ready).length;
  const readyMembers = members.filter((member) => member.conditions.ready);
  const terminating = states.filter((state) => !state.ready && state.serving && state.terminating).length;
  return {
    count: slices.length,
    ports: [...new Set(slices.flatMap((slice) => slice.ports.map((port) => port.name)))].sort(),
    families: [...new Set(slices.flatMap((slice) => slice.family ?? []))].sort(),
    ready,
    terminating,
    notReady: states.length - ready - terminating,
    hints: [
      { kind: 'zone', ...hints(readyMembers.map(({ hintZones }) => hintZones)) },
      { kind: 'node', ...hints(readyMembers.map(({ hintNodes }) => hintNodes)) },
    ],
  };
}

function hints(ofEach: readonly (readonly string[])[]): { hinted: number; of: number; names: readonly string[] } {
  const hinted = ofEach.filter((names) => names.length > 0);
  return { hinted: hinted.length, of: ofEach.length, names: [...new Set(hinted.flat())].sort() };
}

interface Attempted<T> {
  readonly value?: T;
  readonly failure?: ApiFailure;
}

/**
 * Sends a request to the API server, and repeats it after a refusal, because the first response after an API server's start may be a
 * meaningless 403.
 */
async function attempt<T>(question: () => Promise<T>): Promise<Attempted<T>> {
  for (let round = 1; ; round++) {
    try {
      return { value: await question() };
    } catch (error) {
      const failure = failureOf(error);
      if (failure.kind !== 'forbidden' || round === 2) return { failure };
      await new Promise<void>((resolve) => systemClock.timer(resolve, 300).ref());
    }
  }
}

function verdictOf({ failure }: Attempted<unknown>): Permission {
  if (failure === undefined) return allowed;
  const { kind, message } = failure;
  if (kind === 'unauthorized') return { state: 'failed', message, isUnauthorized: true };
  return { state: kind === 'forbidden' ? 'forbidden' : 'failed', message };
}
