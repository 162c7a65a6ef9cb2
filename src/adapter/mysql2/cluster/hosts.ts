import { EvenkeelError, type Stage, type StageContext, type StageFactory } from '../../../index.js';
import { notify } from '../../kit/index.js';
import { matches } from './pattern.js';

/** Which servers of a Service are meant: a pattern over the names of their pods, or a function of it. */
export type Hosts = string | ((podName: string) => boolean);

/** Leaves out the pods that are not meant: no connection is kept to them. */
export function only(hosts: Hosts): StageFactory {
  if (typeof hosts !== 'function' && (typeof hosts !== 'string' || hosts === '')) {
    throw new EvenkeelError('EVENKEEL_OPTION', "hosts must be a pattern such as 'mysql-0' or 'mysql-*', or a function");
  }
  const isMeant = typeof hosts === 'function' ? hosts : (name: string): boolean => matches(hosts, name);
  return ({ observer }: StageContext): Stage => {
    let told = false;
    return {
      apply: (set) => {
        const named = set.filter(({ endpoint }) => endpoint.name !== undefined);
        if (named.size < set.size && !told) {
          told = true;
          const message =
            'hosts leaves out servers whose pods have no name: plain DNS does not tell it, EndpointSlices do';
          notify(observer, 'warned', { message });
        }
        return named.filter(({ endpoint }) => isMeant(endpoint.name as string));
      },
    };
  };
}
