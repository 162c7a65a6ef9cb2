/** A Kubernetes service account. */
export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

/**
 * Finds the name of a service account in a message of the API server or in the subject of a token, where it is written as
 * `system:serviceaccount:<namespace>:<name>`.
 */
export function serviceAccountIn(text: string): ServiceAccount | undefined {
  const match = /system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]*[a-z0-9])/.exec(text);
  return match === null ? undefined : { namespace: match[1] as string, name: match[2] as string };
}

/**
 * Returns the Role and RoleBinding that give `account` the permissions that evenkeel needs in `namespace`, as YAML for `kubectl apply -f
 * -`. The permission `get` on `services` is used to look up port numbers and to detect misspelt names of Services.
 */
export function sliceReaderManifest(namespace: string, account: ServiceAccount): string {
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: evenkeel-endpoints
  namespace: ${namespace}
rules:
  - apiGroups: ["discovery.k8s.io"]
    resources: ["endpointslices"]
    verbs: ["list", "watch"]
  - apiGroups: [""]
    resources: ["services"]
    verbs: ["get"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: evenkeel-endpoints-${account.namespace}-${account.name}
  namespace: ${namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: evenkeel-endpoints
subjects:
  - kind: ServiceAccount
    name: ${account.name}
    namespace: ${account.namespace}
`;
}
