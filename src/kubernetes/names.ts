// The names of annotations, labels and objects that the plane reads and writes in clusters. Input has
// several spellings; of each name the plane writes one.

/** The requirement spells its domain in several ways. */
const domains = [
  'antreaplus.vmware-tanzu.com',
  'antreaplus.vmware-tanzue.com',
  'antreaplus.vmware.com',
  'antreaplus.tanzu-vmware.com',
  'hansa.dev',
] as const;

const spellings = (prefix: string): readonly string[] =>
  domains.map((domain) => `${prefix}.${domain}`);

/** On a member Service: the name of the federated Service that it belongs to. */
export const memberAnnotations = {
  global: spellings('svc.global.federated'),
  namespaced: spellings('svc.federated'),
} as const;

/** Tags of a VirtualMachine: the Service that it is a backend of. Empty: the name follows from its ID. */
export const serviceTags = spellings('svc');

/** On a policy: whether all members get it. */
export const policyAnnotations = spellings('federated.anp');
/** The one that the plane writes, which is the requirement's. */
export const policyAnnotation = 'federated.anp.antreaplus.vmware.com';

/** The keys of the claim that a cluster is a supervisor. */
export const supervisorClaims = spellings('supervisor');

/** On copies: the name of the federated Service. */
export const copyAnnotation = 'fed-svc.antreaplus.vmware-tanzu.com';
/** Label and annotation of the slices of a copy: the ID of the cluster that the endpoints come from. */
export const originKey = 'cluster.federated.antreaplus.vmware-tanzu.com';

/** On the Services of VirtualMachines, and on their slices: the name of the Service. */
export const vmAnnotation = 'vm.antreaplus.vmware-tanzu.com';

/** The manager of our slices; the controllers of Kubernetes leave those of others alone. */
export const managedByLabel = 'endpointslice.kubernetes.io/managed-by';
export const serviceNameLabel = 'kubernetes.io/service-name';
/**
 * On slices that another program brought from another cluster, such as Cilium Cluster Mesh: that cluster. It is a
 * label of KEP-1645.
 */
export const sourceClusterLabel = 'multicluster.kubernetes.io/source-cluster';
/** On Services that Linkerd makes for those of other clusters. It copies their annotations, ours too. */
export const mirrorLabel = 'mirror.linkerd.io/mirrored-service';
export const manager = 'clusters.hansa.dev';
/** The manager of the Services of VirtualMachines and of their slices. Those are no copies. */
export const vmManager = 'vms.clusters.hansa.dev';
/** The manager of ServiceImports, and of their Services and slices. Those are no copies. */
export const importManager = 'imports.clusters.hansa.dev';
export const managers = [manager, vmManager, importManager] as const;

/** Label of the slices of a ServiceImport (KEP-1645), beside `sourceClusterLabel`: its name. */
export const importNameLabel = 'multicluster.kubernetes.io/service-name';
/** On ServiceImports of sites, and on their Services and slices: the name of the ServiceImport. */
export const importAnnotation = 'clusters.hansa.dev/import';

/** Deletes the Services and slices that sites made: copies, and those of VirtualMachines and ServiceImports. */
export const removalCommand = `kubectl delete services,endpointslices -A -l '${managedByLabel} in (${managers.join(',')})'`;
/** A command of its own: with a kind that the cluster does not serve, kubectl deletes nothing at all. */
export const importRemovalCommand = `kubectl delete serviceimports.multicluster.x-k8s.io -A -l ${managedByLabel}=${importManager}`;

/** On all that the plane writes, the Lease too: the term of the leader that wrote it. Only grows. */
export const epochAnnotation = 'clusters.hansa.dev/epoch';
/** On the Lease: the next term must exceed this one. */
export const epochFloorAnnotation = 'clusters.hansa.dev/epoch-floor';
/** On an object that the plane is about to delete: the term of the leader that deletes it. */
export const deletingAnnotation = 'clusters.hansa.dev/deleting';
/** The field manager of writes into a status, before the term: metadata, and so the epoch, cannot be written there. */
export const termManager = 'hansa-term-';
/** On the slices of a copy: the slice or the member Service that the endpoints come from. */
export const sourceAnnotation = 'clusters.hansa.dev/source';
/** On the Service of VirtualMachines: the key of the annotation that a site set because of a tag. */
export const taggedAnnotation = 'clusters.hansa.dev/tagged';
/** On a policy that a site wrote: the stamp and the hash of the version that it wrote. */
export const versionAnnotation = 'clusters.hansa.dev/version';
/** On a policy that a site created: the ID of the cluster that the first version came from. */
export const replicaAnnotation = 'clusters.hansa.dev/replica-of';
/** On a member Service: what happens to its endpoints while its cluster cannot be reached. */
export const unreachableAnnotation = 'clusters.hansa.dev/unreachable';
/** On a member Service: the DNS names of its federated Service, with commas between them. */
export const hostnameAnnotation = 'clusters.hansa.dev/hostname';
/** On copies, and on the Services of ServiceImports: since when each cluster takes part in the federated Service. */
export const sinceAnnotation = 'clusters.hansa.dev/since';
/** On copies: since when the federated Service has each of its DNS names. */
export const namesSinceAnnotation = 'clusters.hansa.dev/names-since';
/** On copies: which annotations for ExternalDNS are ours. */
export const dnsAnnotation = 'clusters.hansa.dev/dns';
/** The prefix of the annotations that ExternalDNS reads, where the setting names no other. */
export const defaultDnsPrefix = 'external-dns.alpha.kubernetes.io';
/** The condition in the status of member Services. */
export const memberCondition = 'clusters.hansa.dev/Federated';
/** The condition in the status of member Services that have a DNS name, and of copies with one by hand. */
export const namedCondition = 'clusters.hansa.dev/Named';
/** The conditions that sites write. */
export const ownConditions: readonly string[] = [memberCondition, namedCondition];

/** The namespace for the Lease, the ServiceAccount, Secrets and global copies, where the setting names no other. */
export const defaultNamespace = 'hansa-system';
export const leaseName = 'hansa-leader';
/** On a Cluster of the site: the ID of the member, where the Cluster has another name. */
export const clusterIDLabel = 'clusters.hansa.dev/id';
/** On a marked Cluster of the site: whether the site follows the objects there. */
export const syncCondition = 'ResourcesSynced';
