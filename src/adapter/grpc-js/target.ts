import { optionError } from '../kit/index.js';

/** Schemes of target strings; what stands before the first colon otherwise is a host. */
const SCHEMES = ['kubernetes', 'dns', 'static'];

/** Checks what a user may give for the Service. Throws EVENKEEL_OPTION. */
export function checkService(service: unknown): string {
  if (typeof service !== 'string' || !/^[^\s/?#@]+$/.test(service)) {
    throw optionError('service', 'a Service such as orders.shop:50051', service);
  }
  return service;
}

/**
 * `:authority` and the name TLS asks for, regardless of the pod: the Service's own host and port. A port that is a name is left
 * out, since an authority cannot hold one; of a static list it is the first address.
 */
export function authorityOf(service: string): string {
  const [scheme = '', ...rest] = service.split(':');
  const plain = SCHEMES.includes(scheme) && rest.length > 0 ? rest.join(':') : service;
  const [first = plain] = plain.split(',');
  const named = /^(.*):([^\]:]*)$/.exec(first);
  return named !== null && !/^\d+$/.test(named[2] as string) ? (named[1] as string) : first;
}
