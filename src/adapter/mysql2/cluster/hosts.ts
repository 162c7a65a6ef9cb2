import { EvenkeelError, type Stage, type StageContext, type StageFactory } from '../../../index.js';
import { notify } from '../../kit/index.js';

/** Which servers of a Service are used: a pattern for the names of their pods, or a function. */
export type Hosts = string | ((podName: string) => boolean);

/** Leaves out the other servers: no connection is kept to them. Throws EVENKEEL_OPTION. */
export function only(hosts: Hosts): StageFactory {
  if (typeof hosts !== 'function' && (typeof hosts !== 'string' || hosts === '')) {
    throw new EvenkeelError('EVENKEEL_OPTION', "hosts must be a pattern such as 'mysql-0' or 'mysql-*', or a function");
  }
  const isUsed = typeof hosts === 'function' ? hosts : (name: string): boolean => matches(hosts, name);
  return ({ observer }: StageContext): Stage => {
    let isTold = false;
    return {
      apply: (set) => {
        const named = set.filter(({ endpoint }) => endpoint.name !== undefined);
        if (named.size < set.size && !isTold) {
          isTold = true;
          const message =
            'hosts leaves out servers whose pods have no name: plain DNS does not tell it, EndpointSlices do';
          notify(observer, 'warned', { message });
        }
        return named.filter(({ endpoint }) => isUsed(endpoint.name as string));
      },
    };
  };
}

/** Whether a name matches a pattern as mysql2 has them: `*` stands for anything. */
export function matches(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace(/\*+/g, '.*');
  return new RegExp(`^${source}$`).test(name);
}
