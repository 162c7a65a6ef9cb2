import { serviceAccountIn, sliceReaderManifest } from '../resolver/rbac.js';
import { noPod } from '../resolver/target.js';
import type { Target } from '../resolver/target-grammar.js';
import { list } from './lines.js';
import { unanswered } from './probe-dns.js';
import type { Facts } from './report.js';

/** What to change, most useful first. */
export function todoOf(parsed: Target, { api, dns, use, connections }: Facts): string[] {
  const todo: string[] = [];
  const port = parsed.kind === 'static' ? undefined : parsed.port;
  const refused = connections.some((connection) => connection.error !== undefined);
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
    todo.push('See whether the pods listen on that port, and whether a network policy lets this pod reach them.');
  }
  if (api?.list.state === 'forbidden' || api?.watch.state === 'forbidden') {
    const message = `${api.list.message ?? ''} ${api.watch.message ?? ''}`;
    const account = serviceAccountIn(message) ?? { namespace: api.namespace ?? 'default', name: 'default' };
    const manifest = sliceReaderManifest(api.namespace ?? 'default', account);
    todo.push(
      `Let ${account.namespace}/${account.name} watch EndpointSlices: kubectl apply -f - <<'EOF'\n${manifest}EOF`,
    );
  } else if (api !== undefined && api.list.state === 'not-asked' && parsed.kind !== 'dns') {
    const elsewhere =
      'Run this where the application runs, in a pod with a service account, or name an API server or kubeconfig.';
    todo.push(api.reason === noPod ? elsewhere : `Put this right: ${api.reason}`);
  } else if (api?.list.state === 'failed') {
    todo.push(
      `Find out why ${api.server} cannot be reached from here: a network policy, a proxy, or the API server itself.`,
    );
  }
  if (api?.object === null) {
    todo.push(`Check the name: kubectl get services -n ${api.namespace}`);
  } else if (api?.slices !== undefined && api.slices.count > 0 && api.slices.ready === 0) {
    todo.push(`See why no pod is ready: kubectl describe pods -n ${api.namespace}`);
  }
  const names = api?.slices?.ports ?? [];
  if (typeof port === 'string' && names.length > 0 && !names.includes(port)) {
    todo.push(`Use a port the Service has: ${list(names)}`);
  } else if (typeof port === 'number' && use.errors.some((error) => error.includes(`has no port ${port};`))) {
    const ports = api?.object?.ports ?? [];
    todo.push(`Use a port the Service has: ${ports.map(({ name, port }) => `${name} ${port}`.trim()).join(', ')}`);
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
