import { isSlots } from '../resolver/single-address.js';
import type { Target } from '../resolver/target-grammar.js';
import { causeOf, externalNameOf } from './cause.js';
import { usable } from './endpoints.js';
import { unanswered } from './probe-dns.js';
import type { Facts, Outcome } from './report.js';

/** The overall result of `evenkeel doctor`, in one sentence. */
export function judge(parsed: Target, facts: Facts): { readonly outcome: Outcome; readonly summary: string } {
  const { use, api, connections } = facts;
  const cause = causeOf(parsed, facts);
  if (cause !== undefined) return { outcome: 'unusable', summary: cause.summary };
  if (use.endpoints === undefined) {
    return { outcome: 'unusable', summary: whyNothing(facts) };
  }
  const { length } = usable(use.endpoints);
  if (length === 0) return { outcome: 'unusable', summary: whyEmpty(facts) };
  const reached = connections.filter((connection) => connection.error === undefined).length;
  if (connections.length > 0 && reached === 0) {
    return { outcome: 'unusable', summary: 'endpoints were found, but none of them accepts a connection' };
  }
  const degraded = (summary: string): { outcome: Outcome; summary: string } => ({ outcome: 'degraded', summary });
  if (reached < connections.length) {
    return degraded(`${connections.length - reached} of ${connections.length} endpoints accept no connection`);
  }
  const count = isSlots(use.endpoints) ? 1 : length;
  const many = `${count} endpoint${count === 1 ? '' : 's'}`;
  const external = externalNameOf(facts);
  if (external !== undefined && use.mode !== 'slices') {
    return { outcome: 'fine', summary: `${many}, found by asking DNS for ${external}` };
  }
  if (api?.watch.state === 'forbidden' && api.list.state === 'allowed') {
    return degraded('changes are noticed late: EndpointSlices may be listed but not watched');
  }
  if (api?.watch.state === 'failed') return degraded('changes are noticed late: EndpointSlices cannot be watched');
  if (use.mode === 'name') return degraded('only through one address for all pods');
  if (use.mode === 'dns' && api !== undefined) return degraded('through DNS; EndpointSlices would be better');
  if (parsed.kind === 'dns' && facts.dns?.kind === 'cluster-ip') {
    return degraded('DNS names only the cluster IP, where kube-proxy picks a pod once per connection');
  }
  const clients = facts.process?.left?.length ?? 0;
  if (clients === 1) return degraded('1 client of the app is not balanced');
  if (clients > 1) return degraded(`${clients} clients of the app are not balanced`);
  return { outcome: 'fine', summary: `${many}, found ${howFound(parsed, use.mode)}${unchecked(parsed, facts)}` };
}

/**
 * What `evenkeel doctor` could not check about the target's port: a Service's only port is found without its number, and checking the
 * number takes a permission.
 */
function unchecked(parsed: Target, { api, use }: Facts): string {
  if (parsed.kind === 'static' || parsed.kind === 'dns' || typeof parsed.port !== 'number') return '';
  if (api?.getService.state !== 'forbidden' || (use.mode !== undefined && use.mode !== 'slices')) return '';
  return `; its only port is used, and whether that is ${parsed.port} cannot be checked without "get services"`;
}

function howFound(parsed: Target, mode: string | undefined): string {
  if (parsed.kind === 'static') return 'in the target itself';
  return mode === 'slices' || parsed.kind === 'kubernetes' ? 'by watching EndpointSlices' : 'by asking DNS';
}

function whyNothing({ api, dns, use }: Facts): string {
  const [noApi, noDns] = [api?.list.state === 'failed', dns !== undefined && unanswered(dns.a)];
  if (noApi && noDns) return 'neither the API server nor a name server answers';
  if (api?.list.state === 'forbidden' && dns === undefined) return 'the API server does not let us list EndpointSlices';
  return use.errors.at(-1) ?? 'nothing answered in time';
}

function whyEmpty({ api, use }: Facts): string {
  if (use.endpoints !== undefined && use.endpoints.length > 0)
    return `none of its ${use.endpoints.length} pods is ready`;
  const slices = api?.slices;
  if (api?.object === null) return `there is no Service ${api.service} in the namespace ${api.namespace}`;
  if (slices === undefined || slices.count === 0) return 'nothing with that name was found';
  const pods = slices.ready + slices.terminating + slices.notReady;
  if (pods === 0) return 'the Service has no pods';
  return slices.ready === 0 ? `none of its ${pods} pods is ready` : 'none of its pods has that port';
}
