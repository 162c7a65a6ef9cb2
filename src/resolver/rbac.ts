/** A Kubernetes service account. */
export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

/** Finds `system:serviceaccount:<namespace>:<name>` in a message of the API server, or in a token's subject. */
export function serviceAccountIn(text: string): ServiceAccount | undefined {
  const match = /system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]*[a-z0-9])/.exec(text);
  return match === null ? undefined : { namespace: match[1] as string, name: match[2] as string };
}

/**
 * The Role and RoleBinding that let `account` see the endpoints of the Services in `namespace`, as YAML for `kubectl apply -f -`. `get
 * services` tells which port a number means and detects a misspelled Service.
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
