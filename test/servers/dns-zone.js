import { isIPv6 } from 'node:net';

/** How many CNAMEs are followed before a chain counts as a loop. */
const MAX_CNAMES = 8;

/** A zone of names and their records. To be changed only between queries. */
export class DnsZone {
  #names = new Map();

  /** Sets all records of a name; `{}` is a name that exists without records (NODATA). */
  set(name, records) {
    this.#names.set(canonicalName(name), records);
  }

  /** Forgets a name, which is NXDOMAIN from now on. */
  delete(name) {
    this.#names.delete(canonicalName(name));
  }

  /** Answers queries for known names. The addresses of SRV targets go into the additional section. */
  answer(name, type) {
    const records = this.#names.get(canonicalName(name));
    if (records === undefined) return undefined;
    const ttl = records.ttl ?? 5;
    if (records.cname !== undefined) {
      return { rcode: 'NOERROR', answers: [{ name, ttl, type: 'CNAME', target: canonicalName(records.cname) }] };
    }
    const answers = dataOf(records, type).map((data) => ({ name, ttl, ...data }));
    const additional = [];
    for (const answer of answers) {
      if (answer.type !== 'SRV') continue;
      const target = this.#names.get(canonicalName(answer.target));
      if (target === undefined) continue;
      for (const data of [...dataOf(target, 'A'), ...dataOf(target, 'AAAA')]) {
        additional.push({ name: answer.target, ttl: target.ttl ?? 5, ...data });
      }
    }
    return { rcode: 'NOERROR', answers, additional };
  }
}

/** Asks the sources in order, follows CNAMEs, and answers NXDOMAIN if no source knows the name. */
export function resolveQuestion(sources, name, type) {
  const chain = [];
  let canonical = name;
  for (let hop = 0; hop < MAX_CNAMES; hop++) {
    const answer = firstAnswer(sources, canonical, type);
    const [first] = answer.answers;
    if (first?.type !== 'CNAME' || type === 'CNAME') {
      return { ...answer, answers: [...chain, ...answer.answers] };
    }
    chain.push(first);
    canonical = first.target;
  }
  return { rcode: 'SERVFAIL', answers: [] };
}

/** Creates an answer without records; its SOA says how long it may be cached. */
export function negative(rcode, zone, ttl) {
  const soa = { name: zone, ttl, type: 'SOA', primary: `ns.dns.${zone}`, minimumTtl: ttl };
  return { rcode, answers: [], authority: [soa] };
}

/** Returns a name in lower case, without the trailing dot. */
export function canonicalName(name) {
  const text = name.toLowerCase();
  return text.endsWith('.') ? text.slice(0, -1) : text;
}

function firstAnswer(sources, name, type) {
  for (const source of sources) {
    const answer = source(name, type);
    if (answer !== undefined) return answer;
  }
  return { rcode: 'NXDOMAIN', answers: [] };
}

function dataOf(records, type) {
  switch (type) {
    case 'A':
      return (records.a ?? []).map((address) => ({ type: 'A', address }));
    case 'AAAA':
      return (records.aaaa ?? []).map((address) => ({ type: 'AAAA', address }));
    case 'SRV':
      return (records.srv ?? []).map(({ target, port, priority = 0, weight = 100 }) => ({
        type: 'SRV',
        priority,
        weight,
        port,
        target: canonicalName(target),
      }));
    case 'PTR':
      return records.ptr === undefined ? [] : [{ type: 'PTR', target: canonicalName(records.ptr) }];
    default:
      return [];
  }
}

/**
 * Answers queries like CoreDNS's `kubernetes` plugin. A headless Service has one record per ready pod, and is NXDOMAIN without any; any
 * other Service has its cluster IP whatever its pods do, SRV records for named ports (with the pods as targets, or the Service itself), and
 * NODATA for the other address family. A namespace's own name has no records, or is unknown if the namespace does not exist.
 */
export class KubernetesZone {
  #domain;
  /** How long answers are valid, in seconds, including the answer "no such name". */
  ttl;
  /** Existing namespaces, in addition to those of the zone's Services. */
  namespaces = new Set(['default', 'kube-system']);
  #services = new Map();

  constructor(domain, ttl) {
    this.#domain = canonicalName(domain);
    this.ttl = ttl;
  }

  /** Adds or replaces a Service. */
  set(service) {
    this.#services.set(`${service.name}.${service.namespace}`, service);
  }

  /** Removes a Service; its name is NXDOMAIN from now on. */
  delete(namespace, name) {
    this.#services.delete(`${name}.${namespace}`);
  }

  /** Returns the absolute DNS name of a Service. */
  nameOf(service) {
    return `${service.name}.${service.namespace}.svc.${this.#domain}`;
  }

  /** Answers a query; undefined for a name outside the cluster domain. */
  answer(question, type) {
    const name = canonicalName(question);
    if (name === this.#domain) return this.#no('NOERROR');
    if (!name.endsWith(`.${this.#domain}`)) return undefined;
    const labels = name.slice(0, -this.#domain.length - 1).split('.');
    if (labels.pop() !== 'svc') return this.#no('NXDOMAIN');
    const namespace = labels.pop();
    const serviceName = labels.pop();
    if (namespace === undefined) return this.#no('NOERROR');
    if (serviceName === undefined) return this.#no(this.#hasNamespace(namespace) ? 'NOERROR' : 'NXDOMAIN');
    const service = this.#services.get(`${serviceName}.${namespace}`);
    if (service === undefined) return this.#no('NXDOMAIN');
    if (service.externalName !== undefined) {
      if (labels.length > 0) return this.#no('NXDOMAIN');
      const target = canonicalName(service.externalName);
      return { rcode: 'NOERROR', answers: [{ name, ttl: this.ttl, type: 'CNAME', target }] };
    }
    const [protocol, port] = [labels.at(-1), labels.at(-2)];
    if (labels.length === 2 && port?.startsWith('_') && protocol?.startsWith('_')) {
      return this.#records(name, type, service, undefined, { name: port.slice(1), protocol: protocol.slice(1) });
    }
    return labels.length < 2 ? this.#records(name, type, service, labels[0], undefined) : this.#no('NXDOMAIN');
  }

  #hasNamespace(name) {
    return this.namespaces.has(name) || [...this.#services.values()].some(({ namespace }) => namespace === name);
  }

  #records(name, type, service, podName, srv) {
    const serviceName = this.nameOf(service);
    const targets =
      service.clusterIPs !== undefined && podName === undefined
        ? service.clusterIPs.map((address) => ({ address, name: serviceName }))
        : readyPods(service)
            .map((pod) => ({ address: pod.address, name: `${pod.name}.${serviceName}` }))
            .filter((target) => podName === undefined || target.name === `${podName}.${serviceName}`);
    const ports = (service.ports ?? []).filter(
      (port) =>
        srv === undefined ||
        ((port.name ?? '').toLowerCase() === srv.name && (port.protocol ?? 'TCP').toLowerCase() === srv.protocol),
    );
    // To CoreDNS, a Service that exists but has no records is an unknown name, not an empty one.
    if (targets.length === 0 || (srv !== undefined && ports.length === 0)) return this.#no('NXDOMAIN');
    if (type === 'SRV') return this.#srv(name, targets, ports);
    const answers = targets
      .map((target) => this.#address(name, target.address))
      .filter((record) => record.type === type);
    return answers.length === 0 ? this.#no('NOERROR') : { rcode: 'NOERROR', answers };
  }

  #srv(name, targets, ports) {
    const weight = Math.max(1, Math.floor(100 / (targets.length * ports.length)));
    const answers = [];
    // Two addresses under one name are one SRV record with two addresses.
    const seen = new Set();
    for (const { name: target } of targets) {
      for (const { port } of ports) {
        if (seen.has(`${target}:${port}`)) continue;
        seen.add(`${target}:${port}`);
        answers.push({ name, ttl: this.ttl, type: 'SRV', priority: 0, weight, port, target });
      }
    }
    if (answers.length === 0) return this.#no('NOERROR');
    return {
      rcode: 'NOERROR',
      answers,
      additional: targets.map((target) => this.#address(target.name, target.address)),
    };
  }

  #address(name, address) {
    return { name, ttl: this.ttl, type: isIPv6(address) ? 'AAAA' : 'A', address };
  }

  #no(rcode) {
    return negative(rcode, this.#domain, this.ttl);
  }
}

function readyPods(service) {
  const pods = (service.pods ?? []).filter((pod) => (pod.ready ?? true) || service.publishNotReadyAddresses);
  return pods.flatMap((pod) => {
    const addresses = typeof pod.address === 'string' ? [pod.address] : pod.address;
    return addresses.map((address) => ({ address, name: pod.hostname ?? address.replaceAll(/[.:]/g, '-') }));
  });
}
