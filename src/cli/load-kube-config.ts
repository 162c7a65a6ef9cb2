import { asError, EvenkeelError } from '../errors.js';
import type { KubeConfigLike } from '../resolver/kubernetes/api/kube-config.js';

/** The kubeconfig that the command line names. */
export interface KubeConfigFile {
  /** The path of the file; undefined for the one that kubectl uses. */
  readonly path: string | undefined;
  /** One of its contexts; undefined for the current one. */
  readonly context: string | undefined;
}

interface LoadableKubeConfig extends KubeConfigLike {
  loadFromFile(path: string): void;
  loadFromDefault(): void;
  setCurrentContext(context: string): void;
}

/** Loads a kubeconfig with `@kubernetes/client-node`, the optional package that only this needs. Rejects with EVENKEEL_OPTION. */
export async function loadKubeConfig({ path, context }: KubeConfigFile): Promise<KubeConfigLike> {
  let KubeConfig: new () => LoadableKubeConfig;
  await import('./check-version.js');
  try {
    ({ KubeConfig } = (await import('@kubernetes/client-node')) as unknown as {
      KubeConfig: new () => LoadableKubeConfig;
    });
  } catch (cause) {
    const message = '--kubeconfig needs the package @kubernetes/client-node: npm install @kubernetes/client-node';
    throw new EvenkeelError('EVENKEEL_OPTION', message, { cause });
  }
  try {
    const config = new KubeConfig();
    if (path === undefined) config.loadFromDefault();
    else config.loadFromFile(path);
    if (context !== undefined) config.setCurrentContext(context);
    return config;
  } catch (error) {
    const cause = withoutExcerpt(asError(error));
    const message = `the kubeconfig ${path ?? 'of kubectl'} cannot be read: ${cause.message}`;
    throw new EvenkeelError('EVENKEEL_OPTION', message, { cause });
  }
}

/** Copies a YAML error without its excerpt. The excerpt quotes the lines around the mistake, which may contain tokens and passwords. */
function withoutExcerpt(error: Error): Error {
  if (error.name !== 'YAMLException') return error;
  const [first = ''] = error.message.split('\n');
  const start = first.search(/["'<]/);
  const end = Math.max(...['"', "'", '>'].map((quote) => first.lastIndexOf(quote)));
  return new Error(start !== -1 && start < end ? `${first.slice(0, start)}…${first.slice(end + 1)}` : first);
}
