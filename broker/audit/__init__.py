"""Audit log: logins, changes and refused rights, as JSON lines in a bounded set of files."""

from __future__ import annotations

from broker.audit.audit_file import AuditFile
from broker.audit.audit_log import AuditLog, IAuditLog, NoAuditLog

__all__ = ["AuditFile", "AuditLog", "IAuditLog", "NoAuditLog"]
