import { parseServiceHost } from '../resolver/cluster-domain.js';
import { portsInWords } from '../resolver/kubernetes/slices/service-ports.js';
import { serviceAccountIn, sliceReaderManifest } from '../resolver/rbac.js';
import { noPod } from '../resolver/target.js';
import type { Target } from '../resolver/target-grammar.js';
import { causeOf, externalNameOf } from './cause.js';
import { list } from './lines.js';
import { unanswered } from './probe-dns.js';
import type { ApiFacts, Facts } from './report.js';

/** Lists what to change about the Service, its permissions or the application, with the most useful change first. */
export function todoOf(parsed: Target, facts: Facts): string[] {
  return [...serviceTodo(parsed, facts), ...processTodo(facts)];
}

/** Names each client that is not balanced, and what would balance it. */
function processTodo({ process }: Facts): string[] {
  return (process?.left ?? []).map(({ what, remedy }) => `To balance ${what}: ${remedy}`);
}

function serviceTodo(parsed: Target, facts: Facts): string[] {
  const cause = causeOf(parsed, facts);
  if (cause !== undefined) return [cause.todo];
  const { api, dns, use, connections } = facts;
  const todo: string[] = [];
  const port = parsed.kind === 'static' ? undefined : parsed.port;
  const refused = connections.some((connection) => connection.error !== undefined);
  const external = externalNameOf(facts);
  if (external !== undefined && use.mode !== 'slices' && use.endpoints?.length) {
    // The Service's endpoints refuse connections, so neither permissions nor changes to the Service would help.
    return refused
      ? [`Check whether ${external} listens on that port, and whether a network policy lets this pod out.`]
      : [];
  }
  if (
    refused &&
    dns?.kind === 'pods' &&
    typeof port === 'number' &&
    use.mode !== 'slices' &&
    parsed.kind !== 'kubernetes'
  ) {
    todo.push(
      `DNS does not know the pods' ports, so ${port} was tried on them: name the port, or use the pods' own number.`,
    );
  } else if (refused) {
    todo.push('Check whether the pods listen on that port, and whether a network policy lets this pod reach them.');
  }
  if (api?.object !== null && !use.endpoints?.length) todo.push(...nameToCheck(parsed, facts));
  if (api?.list.state === 'forbidden' || api?.watch.state === 'forbidden') {
    const message = `${api.list.message ?? ''} ${api.watch.message ?? ''}`;
    const account = serviceAccountIn(message) ?? { namespace: api.namespace ?? 'default', name: 'default' };
    const manifest = sliceReaderManifest(api.namespace ?? 'default', account);
    todo.push(
      `Let ${account.namespace}/${account.name} watch EndpointSlices: kubectl apply -f - <<'EOF'\n${manifest}EOF`,
    );
  } else if (api !== undefined && api.list.state === 'not-asked' && parsed.kind !== 'dns') {
    const runInPod =
      'Run this where the application runs, in a pod with a service account, or name an API server or kubeconfig.';
    todo.push(api.reason === noPod ? runInPod : `Fix this: ${api.reason}`);
  } else if (api?.list.state === 'failed') {
    todo.push(apiServerTodo(api));
  }
  if (api?.object === null) {
    todo.push(`Check the name: kubectl get services -n ${api.namespace}`);
  } else if (api?.slices !== undefined && api.slices.count > 0 && api.slices.ready === 0) {
    const { namespace, service, slices } = api;
    const hasPods = slices.terminating + slices.notReady > 0;
    todo.push(
      hasPods
        ? `Find out why no pod is ready: kubectl describe pods -n ${namespace}`
        : `Compare the selector with the labels of the pods, if there are any: kubectl get service ${service} -n ${namespace} -o wide; kubectl get pods -n ${namespace} --show-labels`,
    );
  }
  const names = api?.slices?.ports ?? [];
  if (typeof port === 'string' && names.length > 0 && !names.includes(port)) {
    todo.push(`Use a port the Service has: ${list(names)}`);
  } else if (typeof port === 'number' && use.errors.some((error) => error.includes(`has no port ${port};`))) {
    todo.push(`Use a port the Service has: ${portsInWords(api?.object?.ports ?? [])}`);
  } else if (typeof port === 'number' && names.length > 1 && api?.getService.state === 'forbidden') {
    todo.push(
      `Name the port (${list(names)}) in place of ${port}: a number cannot be told apart without "get services".`,
    );
  }
  if (use.mode === 'name') {
    todo.push('Or make the Service headless (clusterIP: None): then its pods are in DNS and no permission is needed.');
  }
  if (dns !== undefined && unanswered(dns.a) && parsed.kind !== 'kubernetes' && use.mode !== 'slices') {
    todo.push(`Find out why the name server ${dns.servers.join(', ')} does not answer.`);
  }
  return todo;
}

/** What to look at when the API server does not list anything, by how it failed. */
function apiServerTodo({ server, list: { message = '', isUnauthorized } }: ApiFacts): string {
  if (isUnauthorized)
    return `Check the token: ${server} does not know it. It may have expired, or be for another cluster.`;
  if (/certificate/i.test(message)) {
    return `Check the certificate authority: it did not sign the certificate of ${server}, or that names another server.`;
  }
  return `Find out why ${server} cannot be reached from here: a network policy, a proxy, or the API server itself.`;
}

/** Suggests to check the name if neither DNS nor the API server knows the Service, but neither can say for sure that it does not exist. */
function nameToCheck(parsed: Target, { api, dns }: Facts): string[] {
  const namespace = api?.namespace ?? parseServiceHost(dns?.name ?? '')?.namespace;
  if (namespace === undefined || api?.object || parsed.kind === 'static') return [];
  const unseen = api?.slices === undefined || api.slices.count === 0;
  const unresolved = dns === undefined ? api?.slices !== undefined : dns.a.error === 'ENOTFOUND';
  return unseen && unresolved ? [`Check the name: kubectl get services -n ${namespace}`] : [];
}
