"""Measurements of the benchmark `content`: a matching engine against a bare parse."""
