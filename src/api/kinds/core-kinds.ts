// The kinds that every site serves, regardless of its planes. A plane lists its own kinds in its
// plane.ts.

import type { Kind } from '../kind.ts';
import { approvalKind } from './approval.ts';
import { roleKind } from './role.ts';
import { roleBindingKind } from './role-binding.ts';
import { siteKind } from './site.ts';

export const coreKinds: readonly Kind[] = [siteKind, roleKind, roleBindingKind, approvalKind];
