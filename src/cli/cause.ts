import { parseServiceHost } from '../resolver/cluster-domain.js';
import { portsInWords, type ServicePort } from '../resolver/kubernetes/slices/service-ports.js';
import type { Target } from '../resolver/target-grammar.js';
import { usable } from './endpoints.js';
import { unanswered } from './probe-dns.js';
import type { Facts } from './report.js';

/** The one root cause that `evenkeel doctor` found, from which all its other findings follow. */
export interface Cause {
  readonly summary: string;
  readonly todo: string;
}

/** Returns the cause why the target does not work, if it is certain. */
export function causeOf(parsed: Target, facts: Facts): Cause | undefined {
  if (parsed.kind === 'static') return undefined;
  // An address of the Service itself says nothing about the pods behind it, so this is checked first.
  const lone = selectsNothing(facts);
  if (lone !== undefined) return lone;
  if (usable(facts.use.endpoints ?? []).length > 0) return undefined;
  return noNamespace(facts) ?? wrongExternalName(parsed, facts) ?? notTcp(parsed.port, facts);
}

/** The name for which an ExternalName Service is an alias; DNS shows it too. */
export function externalNameOf({ api, dns }: Facts): string | undefined {
  const { object } = api ?? {};
  if (object) return object.type === 'ExternalName' ? object.externalName : undefined;
  return dns?.kind === 'external' || dns?.a.records === 0 ? dns.alias : undefined;
}

function noNamespace({ api, namespace }: Facts): Cause | undefined {
  if (namespace?.state !== 'missing' || api?.object || (api?.slices?.count ?? 0) > 0) return undefined;
  return {
    summary: `DNS knows no namespace ${namespace.name}`,
    todo: 'Check the namespace: kubectl get namespaces',
  };
}

function selectsNothing({ api, connections }: Facts): Cause | undefined {
  const { object, slices } = api ?? {};
  if (!object || object.type === 'ExternalName' || object.hasSelector || slices?.count !== 0) return undefined;
  if (connections.some(({ error }) => error === undefined)) return undefined;
  return {
    summary: 'the Service selects no pods, and nobody has written EndpointSlices for it',
    todo:
      `Give Service ${api?.namespace}/${api?.service} a selector, or write EndpointSlices with the label ` +
      `kubernetes.io/service-name: ${api?.service}`,
  };
}

function wrongExternalName(parsed: Exclude<Target, { kind: 'static' }>, facts: Facts): Cause | undefined {
  const name = externalNameOf(facts);
  const { api, dns } = facts;
  const subject = api ?? parseServiceHost(dns?.name ?? '');
  if (name === undefined || subject === undefined) return undefined;
  const service = `${subject.service}.${subject.namespace}`;
  if (parsed.kind === 'kubernetes') {
    return {
      summary: `${service} is an ExternalName Service, which has no EndpointSlices`,
      todo: `Use the target dns:${service}:${parsed.port}`,
    };
  }
  if (dns === undefined || unanswered(dns.a) || unanswered(dns.aaaa)) return undefined;
  if (dns.a.records + dns.aaaa.records === 0) {
    return {
      summary: `${service} stands for ${name}, and DNS has no address for that`,
      todo: `Correct spec.externalName: kubectl edit service ${subject.service} -n ${subject.namespace}`,
    };
  }
  if (typeof parsed.port === 'number') return undefined;
  return {
    summary: `${service} stands for ${name}, which has no port named ${JSON.stringify(parsed.port)} in DNS`,
    todo: `Give the port as a number: DNS has no ports by name for ${name}`,
  };
}

function notTcp(port: number | string, { api }: Facts): Cause | undefined {
  const ports = api?.object?.ports ?? [];
  const meant = ports.filter((known) => (typeof port === 'number' ? known.port : known.name) === port);
  const [other] = meant;
  if (other === undefined || meant.some(isTcp)) return undefined;
  const tcp = ports.filter(isTcp);
  return {
    summary: `port ${JSON.stringify(port)} of the Service is ${other.protocol}; evenkeel balances TCP`,
    todo:
      tcp.length > 0
        ? `Use a TCP port of the Service: ${portsInWords(tcp)}`
        : `Give the Service a TCP port: it has ${portsInWords(ports)}`,
  };
}

function isTcp({ protocol }: ServicePort): boolean {
  return protocol === 'TCP';
}
